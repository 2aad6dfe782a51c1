"""What a pulse is told of an author's call."""

import asyncio
from typing import Any

import pytest

from palestra.server.author_calls import VERIFY, AuthorMethod


class NotedPulse:
    """Notes the texts that it is told to keep."""

    longest_text = 1000

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.forgotten: list[bytes] = []

    def enter(self, text: bytes, _deadline: float | None) -> None:
        self.texts.append(text)

    def leave(self) -> None:
        return None

    def forget(self, text: bytes) -> None:
        self.forgotten.append(text)


class Server:
    name, palestra_type = "env", "resources_servers"

    def verify(self) -> float:
        return 1.0

    async def verify_later(self) -> float:
        await asyncio.sleep(0)
        return 1.0

    def fail(self) -> float:
        raise ValueError("no reward")


@pytest.mark.parametrize("name", ["verify", "verify_later", "fail"])
def test_a_call_is_forgotten_once_it_is_over(name: str) -> None:
    server, pulse = Server(), NotedPulse()
    method = AuthorMethod(getattr(server, name), server, VERIFY)

    async def run() -> Any:
        return await method.executed(pulse, getattr(server, name))  # type: ignore[arg-type]

    if name == "fail":
        with pytest.raises(ValueError, match="no reward"):
            asyncio.run(run())
    else:
        assert asyncio.run(run()) == 1.0

    assert len(set(pulse.texts)) == 1
    assert pulse.forgotten == pulse.texts[:1]

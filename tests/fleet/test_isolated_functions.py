"""The function of a one-file environment, in worker processes."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

import author_deeds
from palestra.config import InstanceConfig, ServerType
from palestra.errors import CallError, ConfigError, Outcome
from palestra.fleet import build_server, server_client
from palestra.fleet.loading import load_module
from palestra.sandbox import WorkersBroken
from palestra.schema import VerifyRequest, response_of
from palestra.server import EnvironmentServer
from palestra.transport import CallContext, calling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="how workers are stopped is Linux's"),
]

FILE = Path(__file__).parent / "isolated_functions.py"
DEEDS = author_deeds.__file__
LIMIT_S = 3.0
HANGS = ("regex", "loop", "deaf", "sleep")
BREAKS = ("exit", "sys exit", "segfault", "memory", "raise", "rubbish", "close everything")
FINE = ("fine", "fork", "forked sleeper", "close output", "chdir", "where", "alarm")

IMPORTING = {
    "verify": """
import helper_of_adds
from palestra import environment

@environment(data=[{"question": "1+1"}], prompt="{question}")
def verify(answer):
    return 1.0
""",
    "Adds": """
import helper_of_adds
from palestra import Environment, tool

class Adds(Environment):
    data = [{"question": "1+1"}]
    prompt = "{question}"

    @tool
    def add(self, a: int) -> int:
        return a

    def verify(self, answer):
        return 1.0
""",
}

Endings = dict[str, float | CallError]


def server_of(file: Path) -> EnvironmentServer:
    instance = InstanceConfig(
        name="env",
        type=ServerType.RESOURCES,
        implementation="serving",
        settings={},
        host="127.0.0.1",
        port=None,
        entrypoint=file.name,
        folder=file.parent,
    )
    server = build_server(instance, server_client({}, {}))
    assert isinstance(server, EnvironmentServer)
    return server


async def ending(
    server: EnvironmentServer, kind: str, limit_s: float = LIMIT_S
) -> float | CallError:
    body = VerifyRequest.model_validate(
        {"responses_create_params": {"input": "?"}, "response": response_of("4"), "kind": kind}
    )
    endpoint = server.typed_endpoint("/verify")
    assert endpoint is not None
    with calling(CallContext(deadline=time.monotonic() + limit_s)):
        try:
            reward: float = (await endpoint.invoke(body, session_id="s")).reward
        except CallError as error:
            return error
        return reward


async def all_at_once(file: Path, kinds: list[str]) -> list[float | CallError]:
    server = server_of(file)
    try:
        await server.start_workers()
        return await asyncio.gather(*(ending(server, kind) for kind in kinds))
    finally:
        await server.shut_down()


@pytest.fixture(scope="module")
def endings() -> Endings:
    """How every kind ends, when all of them run at once, and the good ones among them."""
    kinds = [*HANGS, *BREAKS, *FINE]
    return dict(zip(kinds, asyncio.run(all_at_once(FILE, kinds)), strict=True))


@pytest.mark.parametrize("kind", [*HANGS, *BREAKS])
def test_what_hangs_or_breaks_is_a_verifier_error(endings: Endings, kind: str) -> None:
    failure = endings[kind]

    assert isinstance(failure, CallError)
    assert failure.outcome is Outcome.VERIFIER_ERROR


@pytest.mark.parametrize("kind", FINE)
def test_what_returns_is_scored_beside_it(endings: Endings, kind: str) -> None:
    assert endings[kind] == 1.0


@pytest.mark.parametrize(
    ("kind", "function", "file"),
    [
        ("regex", "backtrack", DEEDS),
        ("loop", "spin", DEEDS),
        ("segfault", "<lambda>", str(FILE)),
    ],
)
def test_the_failure_names_function_file_and_line(
    endings: Endings, kind: str, function: str, file: str
) -> None:
    failure = endings[kind]

    assert isinstance(failure, CallError)
    frame = failure.evidence.traceback
    assert frame.startswith(f"{file}:"), failure
    assert frame.endswith(f" in {function}")


@pytest.mark.parametrize("base", ["verify", "Adds"])
def test_workers_that_cannot_import_the_file_say_what_its_import_says(
    tmp_path: Path, base: str
) -> None:
    file = tmp_path / "adds.py"
    file.write_text(IMPORTING[base])
    helper = tmp_path / "helper_of_adds.py"
    helper.write_text("")
    server = server_of(file)
    helper.unlink()

    with pytest.raises(WorkersBroken) as broken:
        asyncio.run(server.start_workers())
    with pytest.raises(ConfigError) as refused:
        load_module(file)

    assert broken.value.message == f"the workers cannot start: {refused.value.message}"
    assert broken.value.hint == refused.value.hint != ""

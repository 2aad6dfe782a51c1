"""What the model servers behind a trainer are told and asked, and what their silence means."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from palestra.errors import CallError, CallEvidence, Hop, InfraError, RowIdentity, VerifierError
from palestra.schema import TokenFault, WireModel
from palestra.training.capture import ModelServers
from palestra.transport import (
    CallContext,
    context_from_headers,
    context_headers,
)

pytestmark = pytest.mark.anyio

TURNS: dict[str, Any] = {
    "turns": [
        {
            "began": 1.0,
            "took_s": 0.5,
            "tokens": {"prompt": [1], "generation": [2], "log_probs": [None]},
            "verdict": {
                "log_probs": {"field": "generation_log_probs", "position": 0, "reason": "nan at 0"}
            },
        }
    ]
}
ROLLOUT = RowIdentity(0, 0, 1, "agent", "run.1")
Answers = Callable[[str], Mapping[str, Any]]


def no_such_path(path: str) -> Mapping[str, Any]:
    hop = Hop("model", path, 404)
    raise VerifierError("404", evidence=CallEvidence(hops=(hop,)))


def busy(path: str) -> Mapping[str, Any]:
    raise InfraError(f"{path} took too long")


def fine(path: str) -> Mapping[str, Any]:
    return TURNS if path == "/training/turns" else {}


class Calls:
    """A client of model servers that answer as they are told to."""

    def __init__(self, **answers: Answers) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.tree: dict[str, Any] = {}
        self.targets = {
            name: SimpleNamespace(
                name=name, server_type="responses_api_models", urls=("http://x",), local=None
            )
            for name in answers
        }

    def target(self, name: str) -> Any:
        return self.targets[name]

    def peer(self, name: str) -> Any:
        async def call(path: str, body: object, answer: type[WireModel]) -> WireModel:
            self.asked.append(f"{name}{path}")
            return WireModel.model_validate(self.answers[name](path))

        return SimpleNamespace(call=call)


def servers(calls: Any) -> ModelServers:
    return ModelServers(calls, "run")


async def test_a_model_server_that_cannot_be_told_of_new_weights_is_an_error() -> None:
    calls = Calls(one=fine, other=busy)
    models = servers(calls)
    with pytest.raises(CallError, match="took too long"):
        await models.open(3)

    calls.answers["other"] = fine
    await models.open(3)

    # It was asked again: one that was busy once is not taken for one that knows nothing.
    assert calls.asked.count("other/training/run") == 2
    taken = await models.take("agent", ROLLOUT)
    assert taken is not None
    assert (len(taken.turns), taken.lost) == (2, 0)
    verdict = taken.turns[0].verdict
    assert verdict is not None
    assert verdict.ids is None
    assert verdict.log_probs == TokenFault("generation_log_probs", 0, "nan at 0")


async def test_a_model_server_without_the_endpoint_is_not_asked_again() -> None:
    calls = Calls(foreign=no_such_path)
    models = servers(calls)

    await models.open(1)
    await models.open(2)

    assert calls.asked == ["foreign/training/run"]
    assert await models.take("agent", ROLLOUT) is None


@pytest.mark.parametrize("other", [no_such_path, busy])
async def test_what_only_some_model_servers_know_is_not_all(other: Answers) -> None:
    calls = Calls(one=fine, other=fine)
    models = servers(calls)
    calls.answers["other"] = other if other is no_such_path else fine
    await models.open(1)
    calls.answers["other"] = other

    taken = await models.take("agent", ROLLOUT)

    assert taken is not None
    assert (len(taken.turns), taken.lost) == (1, 1)


async def test_what_was_given_up_is_forgotten_later() -> None:
    calls = Calls(one=fine)
    models = servers(calls)
    for attempt in (1, 2):
        models.abandon("agent", RowIdentity(0, 0, attempt, "agent", "run.1"))

    await models.forget()
    await models.forget()

    assert calls.asked == ["one/training/turns"] * 2


def test_what_an_environment_asks_is_known_as_such_in_other_processes() -> None:
    sent = context_headers(CallContext(row=ROLLOUT, in_environment=True))

    assert context_from_headers(sent).in_environment
    assert not context_from_headers(context_headers(CallContext(row=ROLLOUT))).in_environment


async def test_the_lease_of_a_run_is_renewed_although_a_model_server_is_busy() -> None:
    calls = Calls(one=fine, other=busy)
    models = ModelServers(calls, "run", lease_s=0.03)  # type: ignore[arg-type]  # what it uses
    renewing = asyncio.create_task(models.keep_open())
    async with asyncio.timeout(10):
        while len(calls.asked) < 6:  # noqa: ASYNC110  # each of its calls is one
            await asyncio.sleep(0.005)
    renewing.cancel()

    assert set(calls.asked) == {"one/training/run", "other/training/run"}


async def test_a_client_that_captures_nothing_renews_nothing() -> None:
    calls = Calls(one=fine)
    await ModelServers(calls, "run", capture=False).keep_open()  # type: ignore[arg-type]

    assert calls.asked == []

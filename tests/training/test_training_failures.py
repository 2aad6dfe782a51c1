"""How a rollout can fail, and what a trainer is told of it: the rows of the table in the docs."""

import asyncio
import math
from typing import Any

import pytest
from training_world import ONCE, answer, request, requests, trainer

from palestra.errors import (
    FAILURES,
    AgentError,
    CallError,
    CallEvidence,
    ConfigError,
    CredentialsRejected,
    DeadlineExceeded,
    EndpointRefuses,
    EnvironmentFault,
    Hop,
    Hopeless,
    InfraError,
    JudgeFailure,
    ModelError,
    Outcome,
    RowError,
    VerifierError,
)
from palestra.server.authors_errors import AuthorsPlace, overran
from palestra.training import (
    Attempts,
    Failed,
    FailureClass,
    IncompleteRollouts,
    Key,
    OnIncomplete,
    OnStale,
)
from palestra.training.failing import hint_of
from palestra.transport import current_call

pytestmark = pytest.mark.anyio


def at(path: str) -> CallEvidence:
    return CallEvidence(hops=(Hop("env", path, 500, "the body"),), traceback="env.py:3 in verify")


TABLE = [
    pytest.param(InfraError("refused"), FailureClass.INFRA_ERROR, "infra", id="infra"),
    pytest.param(ModelError("500"), FailureClass.POLICY_ERROR, "model serving", id="model"),
    pytest.param(RowError("no such field"), FailureClass.DATA_ERROR, "data/schema", id="data"),
    pytest.param(
        EnvironmentFault("it raised", evidence=at("/look")),
        FailureClass.ENVIRONMENT_ERROR,
        "verifier/runtime",
        id="environment",
    ),
    pytest.param(
        AgentError("it raised", evidence=at("/run")),
        FailureClass.AGENT_ERROR,
        "verifier/runtime",
        id="agent",
    ),
    pytest.param(
        VerifierError("it raised", evidence=at("/verify")),
        FailureClass.VERIFIER_ERROR,
        "verifier/runtime",
        id="verifier",
    ),
    pytest.param(
        JudgeFailure("no verdict"), FailureClass.JUDGE_ERROR, "verifier/runtime", id="judge"
    ),
    pytest.param(DeadlineExceeded("slow"), FailureClass.TIMEOUT, "throughput/resources", id="late"),
]


def test_every_ending_without_a_reward_can_be_named_and_no_other() -> None:
    settings = Attempts(most=dict.fromkeys(FAILURES, 2))

    assert set(settings.checked().most) == set(Outcome) - {Outcome.SCORED, Outcome.TRUNCATED}
    with pytest.raises(ConfigError, match="'scored'>; it must be one of policy_error"):
        Attempts(most={Outcome.SCORED: 2}).checked()


def raising(error: BaseException) -> Any:
    def script(key: Key, attempt: int) -> float:
        if key.task_id == 1:
            raise error
        return 1.0

    return script


@pytest.mark.parametrize(("error", "failure", "layer"), TABLE)
async def test_a_failure_comes_in_its_class_without_a_reward(
    error: CallError, failure: FailureClass, layer: str
) -> None:
    async with trainer(raising(error), attempts=ONCE, on_incomplete=OnIncomplete.MASK) as (
        client,
        *_,
    ):
        found = (await client.submit(requests(3)).gather())[1]

    assert isinstance(found, Failed)
    assert (found.failure, found.layer, found.attempts) == (failure, layer, 1)
    assert error.message in found.message
    assert not hasattr(found, "reward")


async def test_the_evidence_has_the_innermost_body_and_the_last_frames() -> None:
    error = VerifierError("it raised", evidence=at("/verify"))
    async with trainer(raising(error), on_incomplete=OnIncomplete.MASK) as (client, *_):
        found = (await client.submit(requests(2)).gather())[1]

    assert isinstance(found, Failed)
    assert found.evidence.body == "the body"
    assert found.evidence.log_tail == ["env.py:3 in verify"]
    assert found.evidence.where.endswith("env (/verify)")


@pytest.mark.parametrize("reward", [math.nan, math.inf, None])
async def test_a_reward_that_is_none_fails_the_rollout(reward: Any) -> None:
    async with trainer(lambda *_: answer(reward), on_incomplete=OnIncomplete.MASK) as (client, *_):
        handle = client.submit([request()])
        found = await handle.next()

    assert isinstance(found, Failed)
    assert found.failure is not FailureClass.INFRA_ERROR


@pytest.mark.parametrize("parts", [{"format": math.nan}, {"format": "x"}, [1.0], "none", 3])
async def test_parts_of_a_reward_that_are_none_fail_the_rollout(parts: Any) -> None:
    odd = answer(1.0)
    odd["reward_components"] = parts
    async with trainer(lambda *_: odd, on_incomplete=OnIncomplete.MASK) as (client, *_):
        found = await client.submit([request()]).next()

    assert isinstance(found, Failed)
    assert found.failure is FailureClass.VERIFIER_ERROR
    assert "a bug in Palestra" not in found.message


async def test_parts_of_a_reward_are_numbers_by_name() -> None:
    async with trainer(lambda *_: answer(1.0) | {"reward_components": {"format": 1}}) as (
        client,
        *_,
    ):
        (found,) = await client.submit([request()]).gather()

    assert found.reward_components == {"format": 1.0}  # type: ignore[union-attr]  # completed


async def test_an_attempt_that_takes_too_long_says_what_it_awaited() -> None:
    async def hangs(key: Key, attempt: int) -> float:
        await asyncio.Event().wait()
        return 1.0

    async with trainer(hangs, attempts=ONCE, rollout_timeout_s=0.05) as (client, *_):
        with pytest.raises(IncompleteRollouts, match=r"timeout.*awaiting agent /run"):
            await client.submit([request()]).gather()


async def test_what_is_still_queued_at_the_end_of_the_batch_has_failed_in_time() -> None:
    async def hangs(key: Key, attempt: int) -> float:
        await asyncio.Event().wait()
        return 1.0

    policy = OnIncomplete.RETURN_PARTIAL
    async with trainer(hangs, in_flight=1, on_incomplete=policy, batch_timeout_s=0.1) as (
        client,
        *_,
    ):
        handle = client.submit(requests(3))
        found = [await handle.next() for _ in range(3)]

    assert all(isinstance(one, Failed) for one in found)
    assert handle.summary().failed == {"timeout": 3}
    assert any("not started within" in one.message for one in found if isinstance(one, Failed))


async def test_a_cancelled_ticket_in_the_queue_never_runs() -> None:
    async with trainer(lambda *_: 1.0) as (client, agent, _):
        client.pause()
        handle = client.submit(requests(2))
        handle.cancel([Key(0, 0)])
        client.resume()
        await handle.gather()

    assert [key for key, _ in agent.begun] == [Key(1, 0)]


@pytest.mark.parametrize("policy", [OnStale.DROP, OnStale.ABORT])
async def test_what_is_older_than_the_limit_is_stale(policy: OnStale) -> None:
    go_on = asyncio.Event()

    async def slow(key: Key, attempt: int) -> float:
        if key.task_id == 1:
            await go_on.wait()
        return 1.0

    async with trainer(slow, max_staleness=1, on_stale=policy) as (client, agent, _):
        await client.set_weight_version(5)
        handle = client.submit(requests(2))
        await agent.until_begun(2)
        assert await handle.next() is not None
        await client.set_weight_version(7)
        # Aborted, it has ended already: nobody lets it go on.
        if policy is OnStale.DROP:
            go_on.set()
        found = await handle.next()

    assert isinstance(found, Failed)
    assert (found.failure, found.task_id) == (FailureClass.STALE, 1)
    assert "version 5, and the weights are at 7" in found.message


async def test_an_outcome_that_grows_too_old_while_it_waits_is_stale() -> None:
    async with trainer(lambda *_: 1.0, max_staleness=0) as (client, agent, _):
        await client.set_weight_version(1)
        handle = client.submit(requests(2))
        await agent.until_begun(2)
        assert (await handle.next()).reward == 1.0  # type: ignore[union-attr]  # completed
        await client.set_weight_version(2)
        found = await handle.next()

    assert isinstance(found, Failed)
    assert found.failure is FailureClass.STALE
    assert handle.summary().adds_up


async def test_with_keep_the_age_is_told_and_nothing_is_dropped() -> None:
    async with trainer(lambda *_: 1.0, max_staleness=0, on_stale=OnStale.KEEP) as (client, *_):
        await client.set_weight_version(1)
        handle = client.submit([request()])
        await client.set_weight_version(9)
        found = (await handle.gather())[0]

    assert found.oldest_weights in {1, 9}  # type: ignore[union-attr]  # completed


async def test_a_model_call_knows_the_patience_of_the_client() -> None:
    seen: list[float | None] = []

    def script(*_: object) -> float:
        seen.append(current_call().patience_s)
        return 1.0

    async with trainer(script, endpoint_patience_s=42.0) as (client, *_):
        await client.submit([request()]).gather()

    assert seen == [42.0]


@pytest.mark.parametrize("kind", [CredentialsRejected, EndpointRefuses])
async def test_a_cause_that_no_rollout_survives_ends_everything_at_once(
    kind: type[Hopeless],
) -> None:
    error = kind("the endpoint rejects the key")
    async with trainer(raising(error), attempts=Attempts()) as (client, agent, _):
        with pytest.raises(IncompleteRollouts, match="rejects the key"):
            await client.submit(requests(3)).gather()
        assert not (await client.health()).ok
        with pytest.raises(IncompleteRollouts, match="rejects the key"):
            await client.submit(requests(1)).gather()

    # The third was never begun, or its first attempt was the last.
    assert all(attempt == 1 for _, attempt in agent.begun)


async def test_an_endpoint_that_refuses_everything_is_told_with_the_trainers_own_setting() -> None:
    error = EndpointRefuses("all were refused", hint="--patience SECONDS waits longer")
    async with trainer(raising(error)) as (client, *_):
        with pytest.raises(IncompleteRollouts) as caught:
            await client.submit([request(1)]).gather()

    assert "endpoint_patience_s" in caught.value.cause.setting
    assert "--patience" not in str(caught.value.hint)
    for outcome in caught.value.outcomes:
        assert "--patience" not in getattr(getattr(outcome, "evidence", None), "hint", "")


def test_hints_of_a_call_that_did_not_return_name_no_flag() -> None:
    error = overran("env", "/verify", AuthorsPlace("verify", "env.py", 3), 5.0)

    assert "rollout_timeout" in hint_of(error)
    assert "--" not in hint_of(error)
    assert "--" not in hint_of(EndpointRefuses("refused", hint="--patience SECONDS"))


async def test_another_rollouts_row_is_refused() -> None:
    mixed_up = answer(1.0) | {"_ng_task_index": 7}
    async with trainer(lambda *_: mixed_up) as (client, *_):
        with pytest.raises(IncompleteRollouts, match="another rollout's row"):
            await client.submit([request(3)]).gather()


async def test_what_swallows_its_cancellation_is_left_behind() -> None:
    free = asyncio.Event()

    async def stubborn(key: Key, attempt: int) -> float:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return 1.0

    settings = {"rollout_timeout_s": 0.05, "stuck_after_s": 0.1, "attempts": ONCE}
    async with trainer(stubborn, **settings) as (client, agent, _):
        handle = client.submit([request()])
        await agent.until_begun(1)
        async with asyncio.timeout(10):
            handle.cancel()
            await handle.aclose()
        free.set()

    assert handle.summary().failed == {"cancelled": 1}

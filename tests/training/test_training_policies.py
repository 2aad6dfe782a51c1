"""What becomes of a batch: policies, retries, and the books in the end."""

import asyncio
import math
import os
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from training_world import (
    AGENT,
    ToldAgent,
    ToldServers,
    answer,
    heard,
    request,
    requests,
    said,
    trainer,
)

from palestra.errors import (
    CallError,
    ConfigError,
    InfraError,
    InputDataError,
    JudgeFailure,
    RowError,
    RowIdentity,
    VerifierError,
)
from palestra.fleet import ChildExit
from palestra.fleet.stacks import ProcessEnd
from palestra.training import (
    Attempts,
    Completed,
    FailureClass,
    Fault,
    IncompleteRollouts,
    Key,
    OnIncomplete,
    OnViolation,
    RolloutRequest,
    SyncRolloutClient,
    TokenDiscontinuity,
)
from palestra.training.memory import Memory

pytestmark = pytest.mark.anyio

KILLED = ChildExit(AGENT, -9, ("loading", "serving"), pid=4711)


def failing(*bad: Key) -> Any:
    def script(key: Key, attempt: int) -> float:
        if key in bad:
            raise VerifierError("it raised")
        return 1.0

    return script


async def test_drop_group_keeps_a_group_with_enough_members() -> None:
    settings = {"on_incomplete": OnIncomplete.DROP_GROUP, "min_group_fraction": 0.75}
    bad = (Key(0, 1), Key(1, 0), Key(1, 1))
    async with trainer(failing(*bad), **settings) as (client, *_):
        groups = [group async for group in client.submit(requests(2, 4)).groups(4)]

    assert [(group.group_id, len(group.completed)) for group in groups] == [(0, 3)]


async def test_return_partial_yields_what_came() -> None:
    policy = OnIncomplete.RETURN_PARTIAL
    async with trainer(failing(Key(0, 1)), on_incomplete=policy) as (client, *_):
        (group,) = [group async for group in client.submit(requests(1, 4)).groups(4)]

    assert len(group.outcomes) == 3


async def test_a_killed_agent_is_named_with_its_signal_and_what_to_lower() -> None:
    async def script(key: Key, attempt: int) -> float:
        if key.task_id > 2:  # type: ignore[operator]  # a number here
            await asyncio.Event().wait()
        return 1.0

    async with trainer(script, in_flight=32) as (client, agent, servers):
        handle = client.submit(requests(10))
        await agent.until_begun(10)
        servers.dies(KILLED)
        with pytest.raises(IncompleteRollouts) as found:
            await handle.gather()

    error = found.value
    assert (error.requested, error.received, len(error.missing)) == (10, 3, 7)
    assert (error.cause.process, error.cause.pid, error.cause.signal) == (AGENT, 4711, "SIGKILL")
    assert "most likely out of memory" in str(error)
    assert "lower in_flight (now 32)" in error.cause.setting
    assert error.log_tails == {AGENT: ("loading", "serving")}
    assert handle.summary().failed == {"infra_error": 7}


def test_the_kernels_counter_says_that_memory_ran_out(tmp_path: Path) -> None:
    from palestra.training.postmortem import PostMortem

    vmstat = tmp_path / "proc" / "vmstat"
    vmstat.parent.mkdir()
    vmstat.write_text("oom_kill 3\n")
    memory = Memory(tmp_path)
    examined = PostMortem(memory, [], in_flight=8)
    vmstat.write_text("oom_kill 4\n")

    cause = examined.cause(KILLED.as_error(), KILLED)

    assert cause.out_of_memory
    assert "the kernel killed it, as the counter of this machine has gone up" in cause.sentence


def test_a_process_that_says_it_got_no_memory_is_believed() -> None:
    from palestra.training.postmortem import PostMortem

    ending = ChildExit(AGENT, 1, ("Traceback", "MemoryError"))

    cause = PostMortem(Memory(), [], in_flight=8).cause(ending.as_error(), ending)

    assert (cause.out_of_memory, cause.exit_code) == (True, 1)
    assert "lower in_flight (now 8)" in cause.setting


@pytest.mark.parametrize(
    ("last_lines", "reason"),
    [
        (("Traceback", "ImportError: no torch", ""), "its last line is 'ImportError: no torch'"),
        ((), "it printed nothing"),
    ],
)
def test_a_process_that_ends_by_itself_is_quoted(last_lines: tuple[str, ...], reason: str) -> None:
    from palestra.training.postmortem import PostMortem

    ending = ChildExit(AGENT, 3, last_lines, pid=7)

    cause = PostMortem(Memory(), [], in_flight=8).cause(ending.as_error(), ending)

    assert cause.sentence == f"server {AGENT} (process 7) ended with exit code 3: {reason}"
    assert not cause.out_of_memory


def test_a_process_that_refused_to_run_is_quoted_with_its_hint() -> None:
    from palestra.training.postmortem import PostMortem

    ending = ChildExit(AGENT, 1, ("loading",), ConfigError("no such model", hint="set model"))

    cause = PostMortem(Memory(), [], in_flight=8).cause(ending.as_error(), ending)

    assert cause.sentence == f"server {AGENT} ended with exit code 1: no such model"
    assert cause.setting == "set model"


def test_a_process_that_a_rollout_has_ended_is_explained_by_that_rollout() -> None:
    from palestra.training.postmortem import PostMortem

    failure = InfraError("env/verify ended the process that it ran in", hint="look for os._exit")
    failure.evidence = replace(failure.evidence, row=RowIdentity(3, 0, 1, AGENT))
    ending = ChildExit(AGENT, 3, ())
    error = ending.as_error(process_end=ProcessEnd(failure))

    cause = PostMortem(Memory(), [], in_flight=8).cause(error, ending)

    assert cause.sentence.endswith("exit code 3: env/verify ended the process that it ran in")
    assert cause.setting == "look for os._exit"


async def test_a_failure_of_its_class_is_tried_again_as_often_as_its_budget_says() -> None:
    def script(key: Key, attempt: int) -> float:
        if attempt < 3:
            raise InfraError("refused")
        return 1.0

    attempts = Attempts(most={FailureClass.INFRA_ERROR: 3}, first_pause_s=0.0)
    async with trainer(script, attempts=attempts) as (client, *_):
        handle = client.submit([request()])
        (found,) = await handle.gather()

    assert isinstance(found, Completed)
    assert (found.attempt, handle.summary().retried) == (3, 2)


async def test_what_would_fail_again_is_not_tried_again() -> None:
    async with trainer(failing(Key(0, 0)), on_incomplete=OnIncomplete.MASK) as (client, agent, _):
        await client.submit([request(0), request(1)]).gather()

    assert Counter(key for key, _ in agent.begun)[Key(0, 0)] == 1


def nan_until(attempts: int) -> Any:
    def script(key: Key, attempt: int) -> Any:
        return answer(1.0, said(logprobs=[math.nan if attempt <= attempts else -1.0]))

    return script


async def test_a_nan_may_be_asked_for_again() -> None:
    async with trainer(nan_until(1), attempts=Attempts(nan_retries=1, first_pause_s=0)) as (
        client,
        *_,
    ):
        handle = client.submit([request()])
        (found,) = await handle.gather()

    assert (found.attempt, handle.summary().retried) == (2, 1)  # type: ignore[union-attr]  # completed


async def test_a_dead_agent_is_told_before_any_retry_for_a_nan() -> None:
    dead = asyncio.Event()
    servers_of: list[ToldServers] = []

    async def script(key: Key, attempt: int) -> Any:
        if key.task_id == 0:
            servers_of[0].dies(KILLED)
            dead.set()
            return answer(1.0, said(logprobs=[math.nan]))
        return await asyncio.Event().wait()

    many = Attempts(nan_retries=100, first_pause_s=0.05)
    async with trainer(script, attempts=many) as (client, agent, servers):
        servers_of.append(servers)
        with pytest.raises(IncompleteRollouts, match="SIGKILL"):
            await client.submit(requests(2)).gather()

    assert agent.begun.count((Key(0, 0), 2)) == 0


async def test_masked_rollouts_keep_their_reward_and_say_why() -> None:
    settings = {"on_invalid_logprobs": OnViolation.MASK}
    async with trainer(nan_until(9), **settings) as (client, *_):
        handle = client.submit([request()])
        (found,) = await handle.gather()

    assert isinstance(found, Completed)
    assert (found.masked, found.reward) == (True, 1.0)
    assert handle.summary().masked == 1


async def test_a_split_rollout_without_a_trainable_token_enters_no_baseline() -> None:
    def script(key: Key, attempt: int) -> Any:
        return answer(1.0, said(logprobs=[math.nan if key.rollout_index == 0 else -1.0]))

    async with trainer(script, on_invalid_logprobs=OnViolation.SPLIT) as (client, *_):
        handle = client.submit(requests(1, 3))
        (group,) = [group async for group in handle.groups(3)]

    assert [fault.fault for fault in group.faults] == [Fault.MASKED]
    assert "no trainable token: rollout 0:0, turn 0" in group.faults[0].detail
    assert len(group.advantages().members) == 2
    assert handle.summary().masked == 1


async def test_a_rewritten_history_ends_the_batch_or_is_split() -> None:
    rewritten = answer(1.0, said([1, 2], [3]), heard(), said([1, 9, 9], [4]))
    async with trainer(lambda *_: rewritten) as (client, *_):
        with pytest.raises(TokenDiscontinuity, match="token 1 breaks the sequence"):
            await client.submit([request()]).gather()
    async with trainer(lambda *_: rewritten, on_discontinuity=OnViolation.SPLIT) as (client, *_):
        (found,) = await client.submit([request()]).gather()

    assert [chain.flat.ids for chain in found.chains] == [[1, 2, 3], [1, 9, 9, 4]]  # type: ignore[union-attr]  # completed


async def test_a_rollout_without_all_its_ids_is_masked() -> None:
    def script(key: Key, _attempt: int) -> dict[str, Any]:
        return answer(1.0, said(None) if key.task_id == 0 else said())

    async with trainer(script) as (client, *_):
        found, _ = await client.submit(requests(2)).gather()

    assert isinstance(found, Completed)
    assert "incomplete capture" in found.mask_reason
    assert found.flat.ids == []


async def test_duplicates_and_rows_that_are_none_are_refused_by_name() -> None:
    bad = [
        request(1),
        request(1),
        RolloutRequest(row={}, task_id=2),
        RolloutRequest(row=request(3).row | {"agent_ref": {"name": "nobody"}}, task_id=3),  # type: ignore[operator]  # a dict
    ]
    async with trainer(lambda *_: 1.0) as (client, agent, _):
        with pytest.raises(InputDataError) as found:
            client.submit(bad)

    for part in ("1:0 is asked for twice", "2:0: its row has no", "3:0: no agent is named"):
        assert part in str(found.value)
    assert agent.begun == []


async def test_no_task_that_has_a_name_gets_the_number_of_another() -> None:
    first_named = 1 << 40
    mixed = [request("a"), request(first_named), request("b"), request(first_named + 1)]
    async with trainer(lambda *_: 1.0) as (client, agent, _):
        found = await client.submit(mixed).gather()

    assert [outcome.task_id for outcome in found] == ["a", first_named, "b", first_named + 1]
    assert len({row["_ng_task_index"] for row in agent.rows}) == 4


@pytest.mark.parametrize("task", [1.5, None, True, ("a", 1)])
async def test_what_names_no_task_is_refused(task: Any) -> None:
    async with trainer(lambda *_: 1.0) as (client, *_):
        with pytest.raises(InputDataError, match="must be a whole number or a text"):
            client.submit([request(task)])


async def test_sampling_seed_and_identity_are_on_the_row_that_is_sent() -> None:
    asked = request(4, 2, sampling={"temperature": 0.5}, seed=11)
    async with trainer(lambda *_: 1.0) as (client, agent, _):
        await client.submit([asked]).gather()

    (row,) = agent.rows
    assert row["responses_create_params"]["temperature"] == 0.5
    assert row["responses_create_params"]["metadata"] == {"extra_body": '{"seed":11}'}
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (4, 2)
    assert "temperature" not in asked.row["responses_create_params"]


async def test_higher_priorities_are_started_first() -> None:
    async with trainer(lambda *_: 1.0, in_flight=1) as (client, agent, _):
        client.pause()
        handle = client.submit([request(0), request(1, priority=1), request(2, priority=2)])
        client.resume()
        await handle.gather()

    assert [key.task_id for key, _ in agent.begun] == [2, 1, 0]


async def test_a_slow_consumer_slows_the_starting() -> None:
    async with trainer(lambda *_: 1.0, in_flight=2, max_waiting=4) as (client, agent, _):
        handle = client.submit(requests(50))
        await agent.until_begun(4)
        for _ in range(200):
            await asyncio.sleep(0)
        begun = len(agent.begun)
        found = await handle.gather()

    assert begun <= 6
    assert len(found) == 50


async def test_rows_in_flight_are_bounded_by_their_bytes() -> None:
    async def script(key: Key, attempt: int) -> float:
        for _ in range(5):
            await asyncio.sleep(0)
        return 1.0

    async with trainer(script, in_flight=100, max_bytes=1000) as (client, agent, _):
        await client.submit(requests(40)).gather()

    assert 1 <= agent.most_running < 12


class TightMemory(Memory):
    """All but full, as long as `full`."""

    full = True

    def room(self) -> Any:
        from palestra.training.memory import MemoryRoom

        return MemoryRoom(1, 100, "a test") if self.full else MemoryRoom(90, 100, "a test")


async def test_nothing_is_started_while_memory_is_short_but_one_at_a_time() -> None:
    async def script(key: Key, attempt: int) -> float:
        await asyncio.sleep(0)
        return 1.0

    tight: Any = TightMemory()
    async with trainer(script, memory=tight, memory_reserve=0.1) as (client, agent, _):
        client.pause()
        handle = client.submit(requests(5))
        client.resume()
        assert (await client.health()).held_back.startswith("memory: 0 MiB of 0 MiB")
        await handle.gather()

    assert agent.most_running == 1


def random_fault(key: Key, attempt: int, seed: int) -> Any:
    """What an attempt comes to: a function of all three."""
    luck = random.Random(f"{seed}:{key}:{attempt}").random()
    errors: list[CallError] = [
        InfraError("reset"),
        RowError("no such field"),
        VerifierError("it raised"),
        JudgeFailure("no verdict"),
    ]
    if luck < 0.2:
        raise errors[int(luck * 20)]
    if luck < 0.22:
        return answer(1.0, said(logprobs=[math.nan]))
    if luck < 0.24:
        return answer(1.0, said(None))
    if luck < 0.25:
        return answer(math.nan)
    return luck


@pytest.mark.slow
async def test_of_many_rows_with_random_faults_each_ends_exactly_once() -> None:
    count = int(os.environ.get("TRAINING_ROWS", "10000"))
    settings = {"on_incomplete": OnIncomplete.MASK, "on_invalid_logprobs": OnViolation.MASK}
    seen: Counter[Key] = Counter()
    async with trainer(lambda key, attempt: random_fault(key, attempt, 7), **settings) as (
        client,
        agent,
        _,
    ):
        async with client.submit(requests(count // 8, 8)) as handle:
            async for outcome in handle:
                seen[outcome.key] += 1
        summary = handle.summary()

    assert set(seen.values()) == {1}
    assert len(seen) == summary.requested == count // 8 * 8
    assert summary.adds_up
    assert summary.pending == 0
    assert summary.completed + sum(summary.failed.values()) == len(seen)
    assert len(agent.begun) == len(seen) + summary.retried
    assert agent.running == 0


def test_the_sync_twin_works_inside_of_a_running_loop() -> None:
    agent = ToldAgent(lambda key, attempt: float(key.task_id))

    async def notebook() -> list[float]:
        import contextlib

        with SyncRolloutClient(lambda: contextlib.nullcontext(ToldServers(agent))) as client:
            with client.submit(requests(3, 2)) as batch:
                rewards = [group.rewards[0] for group in batch.groups(2)]
            assert batch.summary().adds_up
            client.set_weight_version(3)
            assert client.health().weight_version == 3
            assert len(client.submit(requests(4)).gather()) == 4
            return rewards

    assert sorted(asyncio.run(notebook())) == [0.0, 1.0, 2.0]


def test_the_sync_twin_raises_what_the_async_one_raises() -> None:
    import contextlib

    agent = ToldAgent(failing(Key(0, 0)))
    started = time.monotonic()
    with (
        SyncRolloutClient(lambda: contextlib.nullcontext(ToldServers(agent))) as client,
        pytest.raises(IncompleteRollouts, match="it raised"),
    ):
        list(client.submit(requests(2)))

    assert time.monotonic() - started < 30

"""Collections whose fleet ends because of a rollout's code: that rollout fails, the others are not run."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_runs import (
    AGENT,
    ScriptedAgent,
    paths,
    prepared,
    read_rows,
    settings,
    task,
    write_rows,
)

from palestra.errors import CallEvidence, RowIdentity, ServerDied, VerifierError
from palestra.rollouts import run
from palestra.schema import RolloutKey

GUILTY = RolloutKey(1, 0)
OF_ANOTHER_RUN = {"run": "another"}
OF_AN_EARLIER_ATTEMPT = {"attempt": 0}


def failures_after_end(
    folder: Path, changes: dict[str, object] | None = None, *, is_cancelled: bool = False
) -> list[tuple[int, str, bool]]:
    """The failures of a collection whose fleet ends when its three rollouts are in flight, because of
    a call of the second, or of a rollout that differs from it in `changes`.

    `is_cancelled`: the collection is cancelled; else each request fails as that of an ended fleet.
    """
    write_rows(folder / "tasks.jsonl", [task(number) for number in range(3)])
    prepared_run = prepared(folder)
    fleet_ended = asyncio.Event()
    row = RowIdentity(GUILTY.task, GUILTY.rollout, 1, AGENT, prepared_run.run_id)
    guilty = replace(row, **(changes or {}))
    failure = VerifierError("ended its process", evidence=CallEvidence(row=guilty))
    failure.retriable = False

    async def interrupted(_key: RolloutKey, _attempt: int) -> float:
        await fleet_ended.wait()
        raise ServerDied("env was ended", failure=failure)

    async def main() -> None:
        agent = ScriptedAgent(interrupted)
        client = agent.client
        client.ending_failure = lambda: failure
        collecting = asyncio.create_task(run(prepared_run, settings(folder), client))
        await agent.until_begun(3)
        if is_cancelled:
            collecting.cancel()
        fleet_ended.set()
        with pytest.raises(asyncio.CancelledError if is_cancelled else ServerDied):
            await collecting

    asyncio.run(main())
    return [
        (row["_ng_task_index"], row["_ng_failure_class"], row["_ng_failure_terminal"])
        for row in read_rows(paths(folder).failures)
    ]


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_the_rollout_whose_code_ended_the_fleet_is_recorded_alone(
    tmp_path: Path, *, is_cancelled: bool
) -> None:
    recorded = failures_after_end(tmp_path, is_cancelled=is_cancelled)

    assert recorded == [(GUILTY.task, "verifier_error", True)]


@pytest.mark.parametrize("changes", [OF_ANOTHER_RUN, OF_AN_EARLIER_ATTEMPT])
def test_another_attempt_is_not_blamed_for_the_end_of_the_fleet(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    assert failures_after_end(tmp_path, changes) == []

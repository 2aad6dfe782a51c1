"""Rows run against an agent, and how each one's end is written down."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import (
    ScriptedAgent,
    always,
    answer,
    collect,
    failing_first,
    paths,
    prepared,
    read_rows,
    settings,
    task,
    unchecked,
    write_rows,
)

from palestra.errors import (
    CallError,
    CallEvidence,
    CredentialsRejected,
    DeadlineExceeded,
    EndpointRefuses,
    FieldProblem,
    Hop,
    InfraError,
    InputDataError,
    JudgeFailure,
    ModelError,
    ModelRejectedRow,
    RowError,
    VerifierError,
)
from palestra.rollouts import Collected, Journal, JournalFailed, Progress, run
from palestra.schema import RolloutKey
from palestra.transport import current_call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three tasks."""
    write_rows(tmp_path / "tasks.jsonl", [task(1), task(2), task(3)])
    return tmp_path


def recorded(folder: Path) -> list[tuple[int, int]]:
    return sorted(
        (row["_ng_task_index"], row["_ng_rollout_index"]) for row in read_rows(paths(folder).output)
    )


def failures(folder: Path) -> list[dict[str, Any]]:
    return read_rows(paths(folder).failures)


def test_every_rollout_becomes_a_row_with_its_identity(folder: Path) -> None:
    collected = collect(folder, always(0.25), num_repeats=2)

    assert recorded(folder) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert {row["reward"] for row in read_rows(paths(folder).output)} == {0.25}
    assert {row["agent_ref"]["name"] for row in read_rows(paths(folder).output)} == {"agent"}
    assert collected.accounting.line() == "requested 6 = scored 6 + failed 0"
    assert not paths(folder).failures.exists()


def test_every_call_says_for_which_run_it_is(folder: Path) -> None:
    runs: list[str] = []

    def script(_key: RolloutKey, _attempt: int) -> float:
        row = current_call().row
        runs.append(row.run if row else "")
        return 1.0

    collect(folder, ScriptedAgent(script))
    manifest = json.loads(paths(folder).manifest.read_text())

    assert set(runs) == {manifest["digest"][:12]}


def test_a_failed_rollout_leaves_its_siblings_alone(folder: Path) -> None:
    def script(key: RolloutKey, _attempt: int) -> float:
        if key.task == 1:
            raise VerifierError("it raised")
        return 1.0

    collected = collect(folder, ScriptedAgent(script))

    assert recorded(folder) == [(0, 0), (2, 0)]
    assert collected.accounting.line() == ("requested 3 = scored 2 + failed 1 (verifier_error 1)")


@pytest.mark.parametrize(
    ("error", "outcome", "layer", "attempts"),
    [
        (InfraError("connection refused"), "infra_error", "infra", 3),
        (ModelError("502"), "policy_error", "model serving", 3),
        (JudgeFailure("no verdict"), "judge_error", "verifier/runtime", 3),
        (DeadlineExceeded("slow"), "timeout", "throughput/resources", 3),
        (ModelRejectedRow("bad tool"), "data_error", "model serving", 1),
        (RowError("422"), "data_error", "data/schema", 1),
        (VerifierError("ZeroDivisionError"), "verifier_error", "verifier/runtime", 1),
    ],
)
def test_each_failure_has_its_class_and_layer_and_as_many_attempts_as_may_help(
    folder: Path, error: CallError, outcome: str, layer: str, attempts: int
) -> None:
    collected = collect(folder, always(error), limit=1)

    rows = failures(folder)
    assert [row["attempt"] for row in rows] == list(range(1, attempts + 1))
    assert {(row["_ng_failure_class"], row["_ng_failure_layer"]) for row in rows} == {
        (outcome, layer)
    }
    assert [row["_ng_failure_terminal"] for row in rows] == [False] * (attempts - 1) + [True]
    assert collected.accounting.line() == f"requested 1 = scored 0 + failed 1 ({outcome} 1)"
    assert collected.accounting.retried_attempts == attempts - 1


def test_a_failure_row_carries_its_evidence(folder: Path) -> None:
    evidence = CallEvidence(
        hops=(Hop("policy_model", "http://x/v1/responses", 400, "no such tool"),),
        problems=(FieldProblem("/tools/0", "a name"),),
        traceback="app.py:3 in verify",
    )

    def script(_key: RolloutKey, _attempt: int) -> float:
        raise RowError("rejected", hint="look", evidence=evidence)

    before = time.time()
    collect(folder, ScriptedAgent(script), limit=1)

    [row] = failures(folder)
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (0, 0)
    assert row["agent_ref"] == {"type": "responses_api_agents", "name": "agent"}
    assert [hop["server"] for hop in row["hops"]] == ["agent", "policy_model"]
    assert row["hops"][1] == {
        "server": "policy_model",
        "url": "http://x/v1/responses",
        "status": 400,
        "body": "no such tool",
    }
    assert row["problems"] == [{"pointer": "/tools/0", "expected": "a name"}]
    assert (row["message"], row["hint"], row["traceback"]) == (
        "rejected",
        "look",
        "app.py:3 in verify",
    )
    assert before - 1 < row["started_at"] <= time.time()
    assert row["elapsed_s"] < 5


def test_a_retriable_failure_gets_another_attempt(folder: Path) -> None:
    agent = failing_first(2, lambda: InfraError("reset"))
    collected = collect(folder, agent, limit=1)

    assert agent.begun == [(RolloutKey(0, 0), 1), (RolloutKey(0, 0), 2), (RolloutKey(0, 0), 3)]
    assert collected.accounting.line() == "requested 1 = scored 1 + failed 0"
    assert [row["_ng_failure_terminal"] for row in failures(folder)] == [False, False]


@pytest.mark.parametrize("max_attempts", [1, 2, 4])
def test_no_rollout_gets_more_attempts_than_allowed(folder: Path, max_attempts: int) -> None:
    agent = always(InfraError("reset"))
    collected = collect(folder, agent, max_attempts=max_attempts)

    assert len(agent.begun) == 3 * max_attempts
    assert collected.accounting.failed == 3


def test_an_error_that_cannot_pass_gets_no_other_attempt(folder: Path) -> None:
    class EngineGone(InfraError):
        retriable = False

    agent = always(EngineGone("the engine died"))
    collect(folder, agent, limit=1)

    assert len(agent.begun) == 1


@pytest.mark.parametrize("reward", [None, "1.0", float("nan"), float("inf"), [1.0]])
def test_what_is_no_finite_number_is_never_a_row(folder: Path, reward: Any) -> None:
    collected = collect(folder, always(unchecked(reward)))

    assert paths(folder).output.read_bytes() == b""
    assert collected.accounting.line() == ("requested 3 = scored 0 + failed 3 (verifier_error 3)")
    assert "which is not a reward" in failures(folder)[0]["message"]


@pytest.mark.parametrize("reward", [None, "high", float("nan")])
def test_an_answer_without_a_reward_is_a_verifier_error(folder: Path, reward: Any) -> None:
    collect(folder, always(answer(reward)), limit=1)

    [row] = failures(folder)
    assert row["_ng_failure_class"] == "verifier_error"
    assert "reward" in row["message"]


def test_a_truncated_rollout_is_scored_and_counted(folder: Path) -> None:
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    usage = {"usage": {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}}
    collected = collect(folder, always(answer(0.0, **details, **usage)))

    assert collected.accounting.line() == ("requested 3 = scored 3, 3 of them truncated + failed 0")
    assert collected.accounting.output_tokens == 15


def test_no_rollout_of_an_empty_limit_is_a_complete_run(folder: Path) -> None:
    collected = collect(folder, always(1.0), limit=0)

    assert collected.accounting.line() == "requested 0 = scored 0 + failed 0"
    assert collected.covered(1.0)


def test_a_hopeless_error_stops_everything_and_leaves_no_files(folder: Path) -> None:
    agent = always(CredentialsRejected("Incorrect API key provided"))
    with pytest.raises(CredentialsRejected, match="Incorrect API key"):
        collect(folder, agent, output_jsonl_fpath=folder / "deep" / "er" / "run.jsonl")

    assert [path.name for path in folder.iterdir()] == ["tasks.jsonl"]


def test_a_hopeless_error_keeps_what_was_recorded_before(folder: Path) -> None:
    def script(key: RolloutKey, _attempt: int) -> float:
        if key.task == 2:
            raise CredentialsRejected("the key expired")
        return 1.0

    with pytest.raises(CredentialsRejected):
        collect(folder, ScriptedAgent(script), num_samples_in_parallel=1)

    assert recorded(folder) == [(0, 0), (1, 0)]
    assert paths(folder).manifest.exists()
    assert collect(folder, always(1.0), resume_from_cache=True).accounting.scored == 3


def test_a_hopeless_error_is_recorded_with_its_rollout_and_costs_it_no_attempt(
    folder: Path,
) -> None:
    def script(key: RolloutKey, _attempt: int) -> float:
        if key.task == 2:
            raise CredentialsRejected("the judge's key expired")
        return 1.0

    with pytest.raises(CredentialsRejected):
        collect(folder, ScriptedAgent(script), num_samples_in_parallel=1, max_attempts=1)

    (struck,) = failures(folder)
    assert (struck["_ng_task_index"], struck["_ng_failure_layer"]) == (2, "model serving")
    assert (struck["_ng_failure_terminal"], struck["ended_run"]) == (False, True)
    resumed = collect(folder, always(1.0), resume_from_cache=True, max_attempts=1)
    assert resumed.accounting.scored == 3


@pytest.mark.parametrize(("patience", "stops"), [(60.0, False), (1e-9, True)])
def test_one_endpoint_that_refuses_stops_no_run_in_which_rollouts_are_scored(
    folder: Path, patience: float, stops: bool
) -> None:
    def script(key: RolloutKey, attempt: int) -> float:
        if (key.task, attempt) == (2, 1):
            raise EndpointRefuses("judge answered 429")
        return 1.0

    def run_it() -> Collected:
        return collect(folder, ScriptedAgent(script), num_samples_in_parallel=1, patience=patience)

    if stops:
        with pytest.raises(EndpointRefuses):
            run_it()
        return
    assert run_it().accounting.scored == 3
    (struck,) = failures(folder)
    assert (struck["_ng_failure_class"], "ended_run" in struck) == ("infra_error", False)


def forever(_key: RolloutKey, _attempt: int) -> Any:
    async def wait() -> None:
        activity = current_call().activity
        assert activity is not None
        activity.now("model", "policy_model /v1/responses")
        await asyncio.Event().wait()

    return wait()


def test_a_rollout_that_takes_too_long_is_a_timeout_that_names_what_it_awaited(
    folder: Path,
) -> None:
    collected = collect(folder, ScriptedAgent(forever), rollout_timeout=0.05, max_attempts=2)

    assert collected.accounting.line() == "requested 3 = scored 0 + failed 3 (timeout 3)"
    assert len(failures(folder)) == 6
    assert "it was awaiting policy_model /v1/responses for 0." in failures(folder)[0]["message"]


@pytest.mark.parametrize("bound", [1, 4, 20])
def test_no_more_rollouts_run_at_once_than_allowed(folder: Path, bound: int) -> None:
    async def turn() -> float:
        await asyncio.sleep(0)
        return 1.0

    agent = ScriptedAgent(lambda _key, _attempt: turn())
    collect(folder, agent, num_repeats=10, num_samples_in_parallel=bound)

    assert agent.most_running == bound
    assert len(recorded(folder)) == 30


def test_without_a_bound_all_rollouts_run_at_once(folder: Path) -> None:
    together = asyncio.Barrier(30)

    async def meet() -> float:
        await together.wait()
        return 1.0

    collect(folder, ScriptedAgent(lambda _key, _attempt: meet()), num_repeats=10)

    assert len(recorded(folder)) == 30


def cancel_after(folder: Path, agent: ScriptedAgent, begun: int) -> None:
    """Collect, and cancel when so many attempts have begun."""
    ready_run = prepared(folder)

    async def main() -> None:
        running = asyncio.create_task(run(ready_run, settings(folder), agent.client))
        await agent.until_begun(begun)
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def first_only(key: RolloutKey, attempt: int) -> Any:
    return 1.0 if key.task == 0 else forever(key, attempt)


def test_a_cancelled_run_can_be_resumed(folder: Path) -> None:
    agent = ScriptedAgent(first_only)
    cancel_after(folder, agent, 3)

    assert recorded(folder) == [(0, 0)]
    assert not paths(folder).failures.exists()
    rest = always(1.0)
    collected = collect(folder, rest, resume_from_cache=True)
    assert [key.task for key, _ in rest.begun] == [1, 2]
    assert collected.accounting.line() == "requested 3 = scored 3 + failed 0"


def test_cancelled_before_anything_ended_it_leaves_no_files(folder: Path) -> None:
    agent = ScriptedAgent(forever)
    cancel_after(folder, agent, 3)

    assert [path.name for path in folder.iterdir()] == ["tasks.jsonl"]


def test_attempts_go_on_counting_after_a_resume(folder: Path) -> None:
    def script(key: RolloutKey, attempt: int) -> Any:
        if attempt == 1:
            raise InfraError("reset")
        return forever(key, attempt)

    agent = ScriptedAgent(script)
    cancel_after(folder, agent, 6)
    collect(folder, always(InfraError("reset")), resume_from_cache=True)

    attempts = [row["attempt"] for row in failures(folder) if row["_ng_task_index"] == 0]
    assert attempts == [1, 2, 3]


def test_a_full_disk_ends_the_run_and_says_so(folder: Path) -> None:
    ready = prepared(folder)
    paths(folder).output.symlink_to("/dev/full")
    with pytest.raises(JournalFailed, match="No space left on device"):
        asyncio.run(run(ready, settings(folder), always(1.0).client))


def test_a_bug_of_the_agent_is_not_swallowed(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        collect(folder, always(ZeroDivisionError("ours")))


def test_progress_shows_what_is_in_flight(folder: Path) -> None:
    seen: list[Progress] = []
    ready = prepared(folder)
    agent = ScriptedAgent(lambda _key, _attempt: look())

    async def look() -> float:
        await asyncio.sleep(0)
        return float(len(seen[0].in_flight))

    async def main() -> Collected:
        return await run(ready, settings(folder), agent.client, on_start=seen.append)

    collected = asyncio.run(main())
    assert collected.accounting.mean_reward == 2.0
    assert seen[0].in_flight == {}


def test_the_manifest_ends_with_the_counts(folder: Path) -> None:
    collect(folder, failing_first(1, lambda: RowError("422")), limit=2)

    assert '"data_error": 2' in paths(folder).manifest.read_text()


def test_whoever_comes_second_to_a_run_deletes_nothing_of_it(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(1)])
    first, second = prepared(tmp_path), prepared(tmp_path, resume_from_cache=True)
    before = {path.name for path in tmp_path.iterdir()}
    with Journal(first.paths), pytest.raises(InputDataError, match="another collection"):
        asyncio.run(run(second, settings(tmp_path), always(1.0).client))

    assert before < {path.name for path in tmp_path.iterdir()}

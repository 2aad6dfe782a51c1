"""Before the first rollout: fresh, refused, moved aside, or continued where it stopped."""

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import (
    AGENT,
    SEMANTICS,
    paths,
    prepared,
    read_rows,
    settings,
    task,
    write_rows,
)

from palestra.datasets import BadRows
from palestra.errors import InputDataError
from palestra.rollouts import (
    JournalFailed,
    PreparedRun,
    StaleRun,
    begin,
    discard,
    discard_new_inputs,
    plan,
)
from palestra.schema import RolloutKey, key_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three tasks."""
    write_rows(tmp_path / "tasks.jsonl", [task(1), task(2), task(3)])
    return tmp_path


def scored(task_index: int, rollout: int = 0, **fields: Any) -> dict[str, Any]:
    return {"_ng_task_index": task_index, "_ng_rollout_index": rollout, "reward": 1.0} | fields


def failed(task_index: int, kind: str, attempt: int, *, terminal: bool = False) -> dict[str, Any]:
    return {
        "_ng_task_index": task_index,
        "_ng_rollout_index": 0,
        "_ng_failure_class": kind,
        "_ng_failure_terminal": terminal,
        "attempt": attempt,
    }


def record(folder: Path, *rows: dict[str, Any]) -> None:
    """Write what a run would have recorded before it was stopped."""
    write_rows(paths(folder).output, [row for row in rows if "reward" in row])
    write_rows(paths(folder).failures, [row for row in rows if "reward" not in row])


def resumed(folder: Path, **changes: Any) -> PreparedRun:
    return prepared(folder, resume_from_cache=True, **changes)


def remaining(run: PreparedRun) -> list[RolloutKey]:
    return [key_of(row) for row in run.rows()]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_fresh_run_has_its_inputs_and_its_manifest(folder: Path) -> None:
    run = prepared(folder, num_repeats=2)

    assert names(folder) == {"tasks.jsonl", "run_materialized_inputs.jsonl", "run_manifest.json"}
    assert (run.manifest.requested, run.manifest.tasks, run.remaining) == (6, 3, 6)
    assert len(remaining(run)) == 6


def test_rows_that_name_another_agent_than_the_command_are_counted(folder: Path) -> None:
    refs = [{"agent_ref": {"name": "other_agent"}}, {"agent_ref": {"name": AGENT}}, {}]
    write_rows(folder / "tasks.jsonl", [task(n, **ref) for n, ref in enumerate(refs)])
    run = prepared(folder, agent_name=AGENT)

    [warning] = run.notices
    assert warning.startswith("warning: 1 of 3 rows name other_agent, ")
    assert warning.endswith(f"; `--agent {AGENT}` has no effect on them")


@pytest.mark.parametrize("agent_name", [AGENT, None])
def test_rows_of_the_agent_of_the_command_are_no_notice(
    folder: Path, agent_name: str | None
) -> None:
    write_rows(folder / "tasks.jsonl", [task(1, agent_ref={"name": AGENT})])

    assert prepared(folder, agent_name=agent_name).notices == ()


def test_a_limit_of_no_rows_is_a_warning(folder: Path) -> None:
    assert "`--limit 0` leaves no rows" in prepared(folder, limit=0).notices[0]


def test_a_prompt_that_names_no_field_is_a_warning(folder: Path) -> None:
    write_rows(folder / "tasks.jsonl", [{"number": 1}, {"number": 2}])
    prompt = folder / "prompt.yaml"
    prompt.write_text("user: Begin.")

    [warning] = prepared(folder, prompt_config=prompt).notices

    assert warning.startswith(f"warning: prompt_config {prompt} names no field of the rows")


def test_an_array_of_rows_is_one_problem_with_its_remedy(folder: Path) -> None:
    (folder / "tasks.jsonl").write_text(json.dumps([task(1), task(2)], indent=1))
    with pytest.raises(BadRows) as caught:
        prepared(folder)

    assert "line 1: the file is one JSON array" in caught.value.message
    assert "jq -c '.[]'" in caught.value.message
    assert "line 2" not in caught.value.message


def test_existing_outputs_are_not_overwritten_unasked(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    with pytest.raises(InputDataError, match=r"run\.jsonl exists already"):
        prepared(folder)

    assert read_rows(paths(folder).output) == [scored(0)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_output_with_the_name_of_another_run_s_file_is_refused(
    folder: Path, overwrite: bool
) -> None:
    prepared(folder)
    with pytest.raises(InputDataError, match=r"the name of a file of the run .*/run\.jsonl"):
        prepared(folder, output_jsonl_fpath=folder / "run_failures.jsonl", overwrite=overwrite)


def test_overwriting_keeps_what_was_there_as_bak(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0), failed(1, "timeout", 1))
    run = prepared(folder, overwrite=True)

    assert run.remaining == 3
    assert read_rows(folder / "run.jsonl.bak") == [scored(0)]
    assert read_rows(folder / "run_failures.jsonl.bak") == [failed(1, "timeout", 1)]
    assert {"run_manifest.json.bak", "run_materialized_inputs.jsonl.bak"} < names(folder)
    moved, unfinished = run.notices
    assert moved == "moved 4 files of an earlier run to <name>.bak"
    assert "had not ended: the same command with" in unfinished


def test_overwriting_moves_the_profile_of_the_earlier_run_aside_too(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    write_rows(folder / "run_reward_profiling.jsonl", [scored(0)])
    prepared(folder, overwrite=True)

    assert "run_reward_profiling.jsonl.bak" in names(folder)
    assert "run_reward_profiling.jsonl" not in names(folder)


def test_bad_rows_move_nothing_aside(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    before = names(folder)
    write_rows(folder / "tasks.jsonl", [{}])
    with pytest.raises(InputDataError):
        prepared(folder, overwrite=True)

    assert names(folder) == before
    assert read_rows(paths(folder).output) == [scored(0)]


@pytest.mark.parametrize("name", ["run.jsonl", "run_materialized_inputs.jsonl"])
def test_a_run_never_writes_over_its_own_input(folder: Path, name: str) -> None:
    write_rows(folder / name, [task(1)])
    with pytest.raises(InputDataError, match="which is its input"):
        prepared(folder, input_jsonl_fpath=folder / name, overwrite=True)

    assert read_rows(folder / name) == [task(1)]


def test_a_folder_is_no_output(folder: Path) -> None:
    paths(folder).output.mkdir()
    with pytest.raises(InputDataError, match=r"run\.jsonl is a folder"):
        prepared(folder, overwrite=True)

    assert paths(folder).output.is_dir()


def test_resuming_what_never_began_is_a_fresh_run(folder: Path) -> None:
    assert resumed(folder).remaining == 3


def test_resuming_what_does_not_exist_says_so_and_names_a_run_that_does(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))

    run = resumed(folder, output_jsonl_fpath=folder / "rnu.jsonl")

    assert run.notices[0].startswith("nothing to resume: ")
    assert run.notices[0].endswith("; did you mean 'run.jsonl'?")


def test_resuming_leaves_out_what_has_ended(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(1), failed(2, "data_error", 1, terminal=True))
    run = resumed(folder)

    assert remaining(run) == [RolloutKey(0, 0)]
    assert run.accounting.line() == ("requested 3 = scored 1 + failed 1 (data_error 1) + not run 1")
    assert run.notices[-1] == "resuming: 2 of 3 rollouts have ended already"


def test_resuming_without_the_file_of_scored_rows_says_what_is_lost(folder: Path) -> None:
    manifest = prepared(folder).manifest
    manifest.write(paths(folder).manifest, ended_counts={"scored": 3})

    assert "with all rollouts that had ended (3)" in resumed(folder).notices[0]


def test_resuming_continues_the_count_of_attempts(folder: Path) -> None:
    prepared(folder)
    record(folder, failed(0, "timeout", 1), failed(0, "infra_error", 2), failed(1, "timeout", 1))
    run = resumed(folder)

    assert dict(run.attempts) == {RolloutKey(0, 0): 2, RolloutKey(1, 0): 1}
    assert run.remaining == 3


def test_spent_attempts_end_a_rollout_until_more_are_allowed(folder: Path) -> None:
    prepared(folder)
    record(folder, *(failed(0, "timeout", n, terminal=n == 3) for n in (1, 2, 3)))

    assert resumed(folder).remaining == 2
    assert resumed(folder, max_attempts=5).attempts == {RolloutKey(0, 0): 3}


def test_a_final_failure_is_not_paid_for_again_however_many_attempts_are_allowed(
    folder: Path,
) -> None:
    prepared(folder)
    record(folder, failed(0, "policy_error", 1, terminal=True) | {"retriable": False})

    assert resumed(folder, max_attempts=9).remaining == 2


def test_a_failure_that_was_to_be_followed_is_run_again_whatever_its_class(folder: Path) -> None:
    prepared(folder)
    record(folder, failed(0, "verifier_error", 1))

    assert resumed(folder).attempts == {RolloutKey(0, 0): 1}
    assert resumed(folder, max_attempts=1).remaining == 2


def test_the_attempt_of_the_highest_number_decides(folder: Path) -> None:
    prepared(folder)
    record(
        folder,
        *(failed(0, "timeout", 2), failed(0, "data_error", 1, terminal=True)),
        *(failed(1, "timeout", 1), failed(1, "data_error", 1, terminal=True)),
    )
    run = resumed(folder)

    assert run.attempts == {RolloutKey(0, 0): 2}
    assert run.accounting.line().startswith("requested 3 = scored 0 + failed 1 (data_error 1)")


def test_a_score_wins_over_the_failures_before_it(folder: Path) -> None:
    prepared(folder)
    record(folder, failed(0, "timeout", 1), failed(0, "timeout", 2), scored(0))

    run = resumed(folder, max_attempts=2)
    assert (run.accounting.scored, run.accounting.failed) == (1, 0)


def test_resuming_restores_rewards_tokens_and_truncations(folder: Path) -> None:
    prepared(folder)
    response = {
        "usage": {"output_tokens": 7},
        "incomplete_details": {"reason": "max_output_tokens"},
    }
    record(folder, scored(0, response=response), scored(1, reward=0.0, response=None))

    accounting = resumed(folder).accounting
    assert (accounting.mean_reward, accounting.output_tokens) == (0.5, 7)
    assert accounting.line().startswith("requested 3 = scored 2, 1 of them truncated")


def test_torn_last_lines_are_dropped_with_a_notice(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    with paths(folder).output.open("a") as file:
        file.write('{"_ng_task_index": 1, "rew')
    run = resumed(folder)

    assert run.remaining == 2
    assert run.notices[0].endswith("run.jsonl: dropped a torn last line of 26 bytes")


def test_a_line_that_no_run_wrote_is_named(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    with paths(folder).output.open("a") as file:
        file.write("garbage\n")
    with pytest.raises(InputDataError, match=r"run\.jsonl line 2 is not a row of a run"):
        resumed(folder)


def test_a_row_without_its_indices_is_named(folder: Path) -> None:
    prepared(folder)
    record(folder, {"reward": 1.0})
    with pytest.raises(InputDataError, match=r"run\.jsonl line 1 .* it needs _ng_rollout_index"):
        resumed(folder)


def test_lost_materialized_inputs_are_made_again(folder: Path) -> None:
    expected = remaining(prepared(folder))
    paths(folder).materialized_inputs.unlink()

    assert remaining(resumed(folder)) == expected


def test_outputs_without_a_manifest_cannot_be_resumed(folder: Path) -> None:
    record(folder, scored(0))
    with pytest.raises(InputDataError, match="cannot be continued safely") as caught:
        resumed(folder)

    assert caught.value.hint == "start again with --overwrite"


def stale(folder: Path, **changes: Any) -> str:
    with pytest.raises(StaleRun) as caught:
        resumed(folder, **changes)
    return caught.value.message


def test_changed_rows_are_refused(folder: Path) -> None:
    prepared(folder)
    write_rows(folder / "tasks.jsonl", [task(1), task(9), task(3)])

    assert "the input rows differ" in stale(folder)
    assert not [name for name in names(folder) if ".new" in name]


def test_a_changed_model_is_refused_with_the_difference(folder: Path) -> None:
    prepared(folder)
    changed = json.loads(json.dumps(SEMANTICS).replace("tiny", "big"))

    assert "servers.policy_model.settings.model: 'tiny' -> 'big'" in stale(
        folder, semantics=changed
    )


@pytest.mark.parametrize(
    ("changed", "is_advised"),
    [
        ({"code": {"math": {"app.py": "1f" * 32}}}, True),
        ({"code": {}, "responses_create_params": {"temperature": 1}}, False),
        ({"code": {"policy_model": {"app.py": "1f" * 32}}}, False),
    ],
    ids=["verifier", "sampling", "model"],
)
def test_a_re_verification_is_advised_when_the_verifier_has_changed(
    changed: dict[str, Any], is_advised: bool, folder: Path
) -> None:
    servers = {**SEMANTICS["servers"], "math": {"type": "resources_servers", "settings": {}}}
    made = {"servers": servers, "code": {}}
    prepared(folder, semantics=made)
    record(folder, scored(0))
    with pytest.raises(StaleRun) as caught:
        resumed(folder, semantics={**made, **changed})

    assert ("palestra reverify" in caught.value.hint) is is_advised


def test_a_changed_temperature_is_refused_with_the_difference(folder: Path) -> None:
    def sampling(temperature: float) -> dict[str, Any]:
        return {"responses_create_params": {"temperature": temperature}}

    prepared(folder, semantics=sampling(0.5))

    assert "responses_create_params.temperature: 0.5 -> 1.0" in stale(
        folder, semantics=sampling(1.0)
    )


def fleet_of(*others: str, **settings: Any) -> dict[str, Any]:
    """The semantics of a fleet with one agent, its environment and its model, and `others`."""
    references = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    servers = {
        AGENT: {"type": "responses_api_agents", "settings": references},
        "env": {"type": "resources_servers", "settings": settings},
        "policy_model": {"type": "responses_api_models", "settings": {}},
        **{name: {"type": "resources_servers", "settings": {"n": 1}} for name in others},
    }
    return {"servers": servers, "code": dict.fromkeys(others, "0f" * 32)}


def stale_hint(folder: Path, **changes: Any) -> str:
    with pytest.raises(StaleRun) as caught:
        resumed(folder, **changes)
    return str(caught.value.hint)


def test_a_changed_server_that_the_rows_do_not_use_can_be_left_out(folder: Path) -> None:
    prepared(folder, semantics=fleet_of("other_env"))
    edited = {**fleet_of("other_env"), "code": {"other_env": {"app.py": "1f" * 32}}}

    hint = stale_hint(folder, semantics=edited)

    assert hint.startswith("other_env is named by no setting of the servers that these rows use")
    assert resumed(folder, semantics=fleet_of()).resumes


def test_a_change_of_what_the_rows_use_has_no_such_way_on(folder: Path) -> None:
    prepared(folder, semantics=fleet_of("other_env"))
    edited = {**fleet_of("other_env", strict=True), "code": {"other_env": {"app.py": "1f" * 32}}}

    assert "is named by no setting" not in stale_hint(folder, semantics=edited)


@pytest.mark.parametrize("scored_since", [False, True])
def test_failed_tasks_are_to_be_selected_only_where_one_has_no_score(
    folder: Path, scored_since: bool
) -> None:
    prepared(folder)
    key = '{"_ng_task_index": 0, "_ng_rollout_index": 0}\n'
    (folder / "run_failures.jsonl").write_text(key)
    if scored_since:
        (folder / "run.jsonl").write_text(key)

    hint = stale_hint(folder, semantics=fleet_of("other_env"), limit=1)

    assert ("palestra select" in hint) != scored_since


def test_servers_that_no_row_reaches_may_come_and_go(folder: Path) -> None:
    prepared(folder, semantics=fleet_of("mcqa", "other"))

    assert resumed(folder, semantics=fleet_of("another")).remaining == 3


def test_a_server_that_a_row_reaches_through_its_agent_may_not_change(folder: Path) -> None:
    judge = {"judge_model_server": {"type": "responses_api_models", "name": "judge"}}
    prepared(folder, semantics=fleet_of("judge", **judge))

    assert "servers.judge" in stale(folder, semantics=fleet_of(**judge))


def test_a_server_that_a_row_reaches_by_the_key_of_a_setting_may_not_go(folder: Path) -> None:
    routes = {"routes": {"judge": 0.5}}
    prepared(folder, semantics=fleet_of("judge", **routes))

    assert "servers.judge" in stale(folder, semantics=fleet_of(**routes))


def test_a_server_that_no_setting_names_may_not_change(folder: Path) -> None:
    prepared(folder, semantics=fleet_of("judge"))
    changed = fleet_of("judge")
    changed["servers"]["judge"]["settings"]["n"] = 2

    assert "servers.judge.settings.n: 1 -> 2" in stale(folder, semantics=changed)


@pytest.mark.parametrize(
    ("before", "after", "line", "advice"),
    [
        ({"limit": 2}, {}, "limit: 2 -> none", "set `--limit 2`"),
        ({}, {"limit": 2}, "limit: none -> 2", "leave out the limit"),
        ({"limit": 1}, {"limit": 2}, "limit: 1 -> 2", "set `--limit 1`"),
    ],
)
def test_another_limit_is_named_with_what_to_do(
    folder: Path, before: dict[str, int], after: dict[str, int], line: str, advice: str
) -> None:
    prepared(folder, **before)
    with pytest.raises(StaleRun) as caught:
        resumed(folder, **after)

    assert line in caught.value.message
    assert "input file" not in caught.value.message
    assert caught.value.hint.startswith(advice)


def test_an_input_file_that_was_written_since_may_have_other_rows(folder: Path) -> None:
    prepared(folder, limit=2)
    os.utime(folder / "tasks.jsonl", (time.time() + 9, time.time() + 9))

    assert "the rows of the input file may have changed, too" in stale(folder, limit=1)


def test_the_advice_undoes_the_limit_and_the_repeats(folder: Path) -> None:
    made = {**SEMANTICS, "num_repeats": 2}
    prepared(folder, semantics=made, limit=1, num_repeats=2)
    with pytest.raises(StaleRun) as caught:
        resumed(folder, semantics={**SEMANTICS, "num_repeats": 1}, limit=2)

    assert caught.value.hint.startswith(
        "set `--limit 1 --num-repeats 2` to go on with that run; or choose another output; "
    )


def test_the_advice_says_that_there_are_further_changes(folder: Path) -> None:
    prepared(folder, limit=1)
    with pytest.raises(StaleRun) as caught:
        resumed(folder, semantics={"servers": {}}, limit=2)

    assert caught.value.hint.startswith("set `--limit 1` and undo the rest to go on with that run")


def test_a_manifest_without_a_limit_is_not_taken_for_one_of_all_rows(folder: Path) -> None:
    prepared(folder, limit=2)
    manifest = json.loads(paths(folder).manifest.read_bytes())
    del manifest["limit"]
    paths(folder).manifest.write_text(json.dumps(manifest))
    write_rows(folder / "tasks.jsonl", [task(1), task(9)])
    with pytest.raises(StaleRun) as caught:
        resumed(folder, limit=2)

    assert "the input rows differ" in caught.value.message
    assert "limit" not in caught.value.message
    assert caught.value.hint.startswith("undo the changes")


def test_another_number_of_rollouts_is_refused(folder: Path) -> None:
    prepared(folder)

    assert "rollouts requested: 3 -> 6" in stale(folder, num_repeats=2)


def test_operational_settings_may_change(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    run = resumed(folder, num_samples_in_parallel=1, rollout_timeout=5.0, max_attempts=1)

    assert run.remaining == 2


def test_a_refused_resume_changes_nothing(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    stale(folder, limit=1)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def planned(folder: Path, *, version: str = "1", **changes: Any) -> PreparedRun:
    return plan(settings(folder, **changes), agents={AGENT}, semantics=SEMANTICS, version=version)


def test_a_plan_touches_nothing_of_an_earlier_run(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    before = names(folder)
    run = planned(folder, overwrite=True)

    assert names(folder) == before | {run.inputs.name}
    discard(run)
    assert names(folder) == before


def test_a_plan_that_is_not_begun_leaves_no_folders(folder: Path) -> None:
    discard(planned(folder, output_jsonl_fpath=folder / "new" / "deep" / "run.jsonl"))

    assert names(folder) == {"tasks.jsonl"}


def test_a_run_begun_meanwhile_by_another_collection_is_not_moved_aside(folder: Path) -> None:
    run = planned(folder)
    prepared(folder)
    with paths(folder).output.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputDataError, match="is being written by another collection"):
            begin(run)


def test_a_stale_run_starts_again_when_told_so(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    write_rows(folder / "tasks.jsonl", [task(1), task(2)])
    run = resumed(folder, on_stale="restart")

    assert run.remaining == 2
    assert read_rows(folder / "run.jsonl.bak") == [scored(0)]
    assert "the input rows differ" in run.notices[-1]


def test_another_version_of_palestra_is_no_continuation(folder: Path) -> None:
    prepared(folder)
    with pytest.raises(StaleRun, match="Palestra's version: 1 -> 2"):
        planned(folder, version="2", resume_from_cache=True)


def test_a_whole_looking_row_without_its_line_break_runs_again(folder: Path) -> None:
    prepared(folder)
    paths(folder).output.write_text(json.dumps(scored(0)))

    assert remaining(resumed(folder)) == [RolloutKey(n, 0) for n in range(3)]


def test_a_manifest_that_cannot_be_written_leaves_nothing(folder: Path) -> None:
    (folder / "run_manifest.json.new").mkdir()
    before = names(folder)
    with pytest.raises(JournalFailed, match=r"run_manifest\.json\.new: Is a directory"):
        prepared(folder)

    assert names(folder) == before


def test_two_plans_for_one_output_keep_their_rows_apart(folder: Path) -> None:
    first = planned(folder)
    write_rows(folder / "tasks.jsonl", [task(9)])
    second = planned(folder)
    begun = begin(first)

    assert [row["number"] for row in begun.rows()] == [1, 2, 3]
    with pytest.raises(InputDataError, match=r"has begun at .* in the meantime"):
        begin(second)
    assert [row["number"] for row in begun.rows()] == [1, 2, 3]
    assert not [name for name in names(folder) if ".new" in name]


def test_a_plan_given_up_leaves_the_other_one_whole(folder: Path) -> None:
    first, second = planned(folder), planned(folder)
    discard(second)

    assert len(list(begin(first).rows())) == 3


def test_a_run_that_recorded_nothing_does_not_take_the_place_of_a_backup(folder: Path) -> None:
    prepared(folder)
    record(folder, scored(0))
    prepared(folder, overwrite=True)
    prepared(folder, overwrite=True)

    assert read_rows(folder / "run.jsonl.bak") == [scored(0)]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("temprature", "temperature"),
        ("toolz", "tools"),
        ("toosl", "tools"),
        ("Tools", "tools"),
        ("top-p", "top_p"),
    ],
)
def test_a_parameter_that_looks_misspelt_is_named_with_what_it_may_mean(
    folder: Path, name: str, near: str
) -> None:
    params = {"input": "2 + 2 = ?", name: [], "top_k": 4, "top_a": 0.1, "my_own": 1}
    write_rows(folder / "tasks.jsonl", [task(1), {"responses_create_params": params}])

    with pytest.raises(BadRows) as caught:
        planned(folder)

    [(path, problem, lines)] = caught.value.rows.found()
    assert (path.name, str(lines)) == ("tasks.jsonl", "2")
    assert f"/{name} " in problem
    assert f"did you mean {near!r}?" in problem


def test_a_second_overwriting_keeps_both_earlier_runs(folder: Path) -> None:
    for number in range(3):
        prepared(folder, overwrite=True)
        record(folder, scored(number))
    assert read_rows(folder / "run.jsonl.bak") == [scored(0)]
    assert read_rows(folder / "run.jsonl.bak2") == [scored(1)]
    assert read_rows(folder / "run.jsonl") == [scored(2)]


@pytest.mark.slow
def test_the_next_run_removes_what_a_killed_command_had_planned(folder: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from palestra.rollouts import plan
from palestra.settings import (CollectSettings, InputFile)
tasks, output = map(Path, sys.argv[1:])
settings = CollectSettings(inputs=(InputFile(tasks),), output_jsonl_fpath=output,
                           agent_name="an_agent")
plan(settings, agents=["an_agent"], semantics={}, version="1")
os.kill(os.getpid(), signal.SIGKILL)
"""
    files = [str(folder / "tasks.jsonl"), str(paths(folder).output)]
    subprocess.run([sys.executable, "-c", script, *files], timeout=30, check=False)
    assert [name for name in names(folder) if ".new-" in name]
    prepared(folder)

    assert not [name for name in names(folder) if ".new" in name]


@pytest.mark.parametrize("moved", [1, 2, 3])
def test_a_kill_while_an_earlier_run_is_moved_aside_never_looks_like_an_empty_run(
    folder: Path, moved: int
) -> None:
    prepared(folder)
    record(folder, scored(0), failed(1, "timeout", 1))
    for name in ["manifest.json", "materialized_inputs.jsonl", "failures.jsonl"][:moved]:
        path = folder / f"run_{name}"
        path.rename(path.with_name(path.name + ".bak"))
    with pytest.raises(InputDataError, match="cannot be continued safely"):
        resumed(folder)
    prepared(folder, overwrite=True)

    assert read_rows(folder / "run.jsonl.bak") == [scored(0)]
    assert read_rows(folder / "run_failures.jsonl.bak") == [failed(1, "timeout", 1)]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (scored(0) | {"reward": "1.0"}, "/reward is '1.0', which is not a reward"),
        (scored(0) | {"_ng_task_index": "0"}, "/_ng_task_index is '0', no whole number"),
        (failed(0, "nonsense", 1), "/_ng_failure_class is 'nonsense', no way for a rollout to end"),
        (scored(7), "a row of rollout 7:0 (task:rollout), which is not part of this run"),
        (failed(0, "timeout", 1) | {"_ng_rollout_index": 1}, "a row of rollout 0:1"),
    ],
)
def test_a_recorded_row_that_no_rollout_of_this_run_wrote_is_named(
    folder: Path, row: dict[str, Any], says: str
) -> None:
    prepared(folder)
    record(folder, row)
    with pytest.raises(InputDataError) as caught:
        resumed(folder)

    assert says in caught.value.message


@pytest.mark.parametrize("response", ["text", [], {"usage": 7, "incomplete_details": "yes"}])
def test_a_recorded_response_may_have_any_shape(folder: Path, response: Any) -> None:
    prepared(folder)
    record(folder, scored(0, response=response))

    assert resumed(folder).accounting.line().startswith("requested 3 = scored 1 +")


def test_a_name_that_no_file_may_have_is_refused(folder: Path) -> None:
    with pytest.raises(InputDataError, match="File name too long"):
        prepared(folder, output_jsonl_fpath=folder / ("x" * 300 + ".jsonl"))


def test_a_process_that_ends_takes_only_its_own_new_inputs_along(folder: Path) -> None:
    others = paths(folder).new_inputs("another-1")
    others.touch()
    run = planned(folder)
    assert run.new_inputs is not None
    (folder / f"{run.new_inputs.name}.half.tmp").touch()

    discard_new_inputs(paths(folder).output)

    assert [name for name in names(folder) if ".new-" in name] == [others.name]

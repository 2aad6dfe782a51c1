"""`compare`, `select` and `scores`, as their users run them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_world import World

Rate = Callable[[int], int]
"""Per task, how many of its four rollouts are solved."""


def rows(world: World, name: str, made: list[dict[str, Any]]) -> None:
    (world.folder / name).parent.mkdir(exist_ok=True)
    world.write(name, "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in made))


def write_run(
    world: World,
    folder: str,
    solved: Rate,
    *,
    tasks: int = 12,
    n: int = 4,
    failing: int = 0,
    **fields: Any,
) -> str:
    """The files of a run in which the last `failing` rollouts of each task timed out."""
    keys = [{"_ng_task_index": t, "_ng_rollout_index": r} for t in range(tasks) for r in range(n)]
    inputs, done, lost = [], [], []
    for key in keys:
        task, rollout = key["_ng_task_index"], key["_ng_rollout_index"]
        params = {"input": f"question {task}"}
        inputs.append({"responses_create_params": params, "expected_answer": "4", **fields, **key})
        if rollout >= n - failing:
            lost.append({**key, "_ng_failure_class": "timeout", "attempt": 1})
            continue
        reward = float(rollout < solved(task))
        response = {"model": "tiny", "usage": {"output_tokens": 10 + task}}
        done.append(
            {"reward": reward, "response": response, "extracted_answer": f"{reward}", **key}
        )
    rows(world, f"{folder}/rollouts.jsonl", done)
    rows(world, f"{folder}/rollouts_materialized_inputs.jsonl", inputs)
    if lost:
        rows(world, f"{folder}/rollouts_failures.jsonl", lost)
    return f"{folder}/rollouts.jsonl"


@pytest.fixture
def runs(world: World) -> tuple[str, str]:
    """A run that solves half, and a better one."""
    return write_run(world, "a", lambda _: 2), write_run(world, "b", lambda task: 3 + task % 2)


@pytest.mark.slow
def test_compare_says_which_run_is_better(world: World, runs: tuple[str, str]) -> None:
    done = world.run("palestra", "compare", *runs, "-m", "pass@2", "-m", "output_tokens")

    assert done.code == 0
    assert "B is better than A: reward +0.3750 [+0.2917, +0.4583], mid-p = 0.0002." in done.out
    assert "12 tasks paired; reward higher in B for 12, lower for 0, equal for 0" in done.out
    assert " output_tokens      12     15.5     15.5      +0.0 " in done.out


def test_compare_is_not_sure_where_the_interval_includes_0(world: World) -> None:
    pair = [write_run(world, name, lambda _, n=n: n, tasks=6) for name, n in (("a", 0), ("b", 3))]

    out = world.run("palestra", "compare", *pair).out

    assert "B is probably better than A: reward +0.7500 [-0.0" in out
    assert "mid-p = 0.0156. The interval includes 0, so these are too few tasks to be sure." in out


def test_compare_lists_what_fell(world: World, runs: tuple[str, str]) -> None:
    out = world.run("palestra", "compare", runs[1], runs[0]).out

    assert "largest regressions, of 12 tasks with a lower reward in B" in out
    assert " 1           1.000   0.500   -0.500            4            4 " in out
    assert f"palestra show {runs[1]} 1:0" in out


def test_compare_as_json_has_everything(world: World, runs: tuple[str, str]) -> None:
    found = json.loads(world.run("palestra", "compare", *runs, "--json", "--gate").out)

    assert found["metrics"][0]["difference"]["value"] == 0.375
    assert found["a"]["rollouts"] == "a/rollouts.jsonl"
    assert found["gate"]["passed"] is True


def test_compare_as_markdown_is_tables(world: World, runs: tuple[str, str]) -> None:
    out = world.run("palestra", "compare", *runs, "--markdown").out

    assert (
        "| metric | tasks | A | B | B - A | 95 % interval | mid-p | mid-p (Holm) | detectable |"
        in out
    )
    assert "| reward | 12 | 0.5000 | 0.8750 | +0.3750 |" in out


def test_missing_rollouts_make_a_range(world: World, runs: tuple[str, str]) -> None:
    partial = write_run(world, "c", lambda _: 2, failing=1)
    out = world.run("palestra", "compare", runs[0], partial).out

    assert "36 of 48 rollouts scored (timeout 12)" in out
    assert "0.5000 .. 0.7500" in out


@pytest.mark.parametrize(
    ("order", "extra", "code"),
    [((0, 1), [], 0), ((1, 0), [], 1), ((1, 0), ["--tolerance", "0.5"], 0)],
)
def test_the_gate_is_the_exit_code(
    world: World, runs: tuple[str, str], order: tuple[int, int], extra: list[str], code: int
) -> None:
    done = world.run("palestra", "compare", *(runs[at] for at in order), "--gate", *extra)

    assert done.code == code
    assert f"gate: {'failed' if code else 'passed'}: " in done.out


def test_a_gate_over_rewards_that_cannot_be_computed_is_an_error_and_no_verdict(
    world: World, runs: tuple[str, str]
) -> None:
    file = world.folder / runs[1]
    file.write_text(file.read_text().replace('"reward":1.0', '"reward":1e308'))

    refused = world.run("palestra", "compare", *runs, "--gate").refused()
    assert "the reward is 1e+308, and statistics need values within ±1e+100" in refused


def test_runs_that_cannot_be_compared_are_refused(world: World, runs: tuple[str, str]) -> None:
    shorter = write_run(world, "c", lambda _: 2, tasks=11)
    other = write_run(world, "d", lambda _: 2, expected_answer="5")

    assert (
        "was passed twice, so these are not two different runs"
        in world.run("palestra", "compare", runs[0], runs[0]).refused()
    )
    assert "1 only in A (11)" in world.run("palestra", "compare", runs[0], shorter).refused()
    assert "0 (expected_answer)" in world.run("palestra", "compare", runs[0], other).refused()
    assert "cannot read no.jsonl" in world.run("palestra", "compare", runs[0], "no.jsonl").refused()


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["-m", "output_token"], "did you mean 'output_tokens'"),
        (["-m", "pass@0"], "no rollout has a numeric field 'pass@0'"),
        (["-m", "pass@9"], "no task has the metric pass@9 in both"),
        (["--json", "--markdown"], "cannot be combined"),
        (["--tolerance", "0.1"], "add --gate"),
        (["--gate", "--tolerance", "-1"], "--tolerance must be a number"),
        (["--gate", "--tolerance", "nan"], "--tolerance: should be a finite number"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    world: World, runs: tuple[str, str], extra: list[str], said: str
) -> None:
    assert said in world.run("palestra", "compare", *runs, *extra).refused()


def test_two_runs_mixed_into_one_are_refused(world: World, runs: tuple[str, str]) -> None:
    path = world.folder / "b" / "rollouts_materialized_inputs.jsonl"
    path.write_text(
        path.read_text().replace(
            'question 3"},"expected_answer":"4","_ng_task_index":3,"_ng_rollout_index":2',
            'question 4"},"expected_answer":"4","_ng_task_index":3,"_ng_rollout_index":2',
        )
    )

    assert (
        "1 task indices each have rollouts of different rows: 3 (b/"
        in world.run("palestra", "compare", *runs).refused()
    )


def test_names_from_data_cannot_write_on_the_terminal(world: World) -> None:
    for folder, reward in (("a", 1.0), ("b", 0.0)):
        key = {"_ng_task_index": "evil\x1b[2J\nrow", "_ng_rollout_index": 0}
        inputs = {"responses_create_params": {"input": "q"}, **key}
        rows(world, f"{folder}/rollouts.jsonl", [{"reward": reward, "response": {}, **key}])
        rows(world, f"{folder}/rollouts_materialized_inputs.jsonl", [inputs])
    done = world.run("palestra", "compare", "a/rollouts.jsonl", "b/rollouts.jsonl")

    assert "\x1b" not in done.out
    assert "evil\\x1b[2J\\nrow" in done.out


def test_select_writes_tasks_and_where_they_come_from(world: World) -> None:
    run = write_run(world, "a", lambda task: task % 5, failing=0)
    done = world.run("palestra", "select", run, "--band", "0.1..0.9", "--out", "new/tasks.jsonl")

    assert done.code == 0
    assert "kept 7 of 12 tasks" in done.out
    assert world.rows("new/tasks.jsonl")[0] == {
        "responses_create_params": {"input": "question 1"},
        "expected_answer": "4",
    }
    told = json.loads((world.folder / "new/tasks_provenance.json").read_text())
    assert told["command"] == f"palestra select {run} --band 0.1..0.9 --out new/tasks.jsonl"
    assert [row["task"] for row in told["tasks"]] == [1, 2, 3, 6, 7, 8, 11]


def test_select_previews_without_an_output(world: World) -> None:
    run = write_run(world, "a", lambda task: task % 5, failing=0)
    before = world.files()
    found = json.loads(
        world.run("palestra", "select", run, "--learnability", "--limit", "2", "--json").out
    )

    assert (found["kept"], found["out"]) == ([2, 7], None)
    assert world.files() == before


def test_select_never_overwrites_unasked(world: World) -> None:
    run = write_run(world, "a", lambda _: 2)
    arguments = ("palestra", "select", run, "--band", "0..1", "--out", "tasks.jsonl")
    world.write("tasks.jsonl", "precious")

    assert "tasks.jsonl exists already" in world.run(*arguments).refused()
    assert world.run(*arguments, "--overwrite").code == 0
    assert len(world.rows("tasks.jsonl")) == 12


@pytest.mark.parametrize(
    ("criteria", "is_said"), [(("--band", "0.1..1"), True), (("--band", "0..1"), False)]
)
def test_select_says_what_not_to_compare_when_rewards_chose_the_tasks(
    world: World, criteria: tuple[str, ...], is_said: bool
) -> None:
    run = write_run(world, "a", lambda task: 2 * task, tasks=3)
    done = world.run("palestra", "select", run, *criteria, "--out", "tasks.jsonl")

    assert ("compare runs of these tasks with each other" in done.out) is is_said


def test_select_that_keeps_nothing_writes_nothing(world: World) -> None:
    run = write_run(world, "a", lambda _: 4)
    done = world.run("palestra", "select", run, "--band", "0.1..0.9", "--out", "tasks.jsonl")

    assert (done.code, "tasks.jsonl" in world.files()) == (1, False)
    assert "no task was kept: tasks.jsonl was not written" in done.err


def test_select_failed_writes_the_tasks_to_collect_again(world: World) -> None:
    run = write_run(world, "a", lambda _: 2, tasks=3)
    (lost, *scored_rows) = world.rows(run)
    world.write(run, "".join(json.dumps(row) + "\n" for row in scored_rows))
    done = world.run("palestra", "select", run, "--failed", "--out", "again.jsonl")

    assert (done.code, lost["_ng_task_index"]) == (0, 0)
    assert ["nothing", "failed", "2"] in [line.split() for line in done.out.splitlines()]
    assert "rollouts without a reward: never ended 1" in done.out
    rows_again = world.rows("again.jsonl")
    assert [row["responses_create_params"]["input"] for row in rows_again] == ["question 0"]
    criteria = json.loads((world.folder / "again_provenance.json").read_text())["criteria"]
    assert criteria["failed"] is True


def test_select_failed_takes_a_run_in_which_nothing_was_scored(world: World) -> None:
    run = write_run(world, "a", lambda _: 0, tasks=3, failing=4)
    done = world.run("palestra", "select", run, "--failed", "--out", "again.jsonl")

    assert done.code == 0
    assert len(world.rows("again.jsonl")) == 3


def test_select_failed_of_a_run_without_failures_has_nothing_to_collect(world: World) -> None:
    run = write_run(world, "a", lambda _: 2)
    done = world.run("palestra", "select", run, "--failed", "--out", "again.jsonl")

    assert (done.code, "again.jsonl" in world.files()) == (1, False)
    assert "there is nothing to collect again" in done.err


def test_select_keeps_what_was_solved_sometimes_by_default(world: World) -> None:
    run = write_run(world, "a", lambda task: 2 * task, tasks=3)
    done = world.run("palestra", "select", run, "--json")

    assert (done.code, json.loads(done.out)["kept"]) == (0, [1])


@pytest.mark.parametrize(("failing", "is_named"), [(1, True), (0, False)])
def test_select_names_the_option_for_failed_tasks_when_rollouts_failed(
    world: World, failing: int, is_named: bool
) -> None:
    run = write_run(world, "a", lambda _: 2, failing=failing)

    assert ("--failed --out" in world.run("palestra", "select", run, "--band", "0..1").out) is (
        is_named
    )


def test_select_names_the_remedy_of_each_failure_class(world: World) -> None:
    run = write_run(world, "a", lambda _: 2, tasks=2, failing=1)
    failures = "a/rollouts_failures.jsonl"
    kept_answer, code_error = world.rows(failures)
    ended = {"_ng_failure_terminal": True}
    kept_answer |= {**ended, "_ng_failure_class": "verifier_error", "response": {}}
    code_error |= {**ended, "_ng_failure_class": "environment_error"}
    rows(world, failures, [kept_answer, code_error])

    out = world.run("palestra", "select", run, "--band", "0..1").out

    assert "`palestra reverify --with-failures` scores 1" in out
    assert "1 needs a fixed row or environment" in out
    assert f"`palestra select {run} --failed --out a/rollouts_again.jsonl`" in out
    assert "--resume, runs" not in out


def test_select_failed_without_a_file_gives_the_command_that_writes_one(world: World) -> None:
    run = write_run(world, "a", lambda _: 2, tasks=2, failing=1)

    out = world.run("palestra", "select", run, "--failed").out

    assert out.splitlines()[-1] == (
        f"next: palestra select {run} --failed --out a/rollouts_again.jsonl"
    )


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--band", "0.1-0.9"], "--band '0.1-0.9' is not LOW..HIGH"),
        (["--band", "0..1", "--out", "a/rollouts.jsonl"], "is a file of the run itself"),
    ],
)
def test_selections_that_make_no_sense_are_refused(
    world: World, extra: list[str], said: str
) -> None:
    run = write_run(world, "a", lambda _: 2)

    assert said in world.run("palestra", "select", run, *extra).refused()


def test_scores_are_the_table_of_the_field(world: World, runs: tuple[str, str]) -> None:
    done = world.run("palestra", "scores", f"base={runs[0]}", f"tuned={runs[1]}", "--k", "2")

    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert [
        "model",
        "tasks",
        "scored",
        "seeds",
        "pass@1",
        "maj@2",
        "pass@2",
        "no",
        "answer",
    ] in lines
    assert [
        "base",
        "12",
        "48/48",
        "2",
        "50.00",
        "±",
        "28.87",
        "50.00",
        "±",
        "50.00",
        "83.33",
        "±",
        "50.00",
        "0.0",
    ] in lines


def test_scores_take_runs_of_one_model_as_seeds(world: World, runs: tuple[str, str]) -> None:
    found = json.loads(world.run("palestra", "scores", *runs, "--json").out)
    (model,) = found["models"]

    assert (model["name"], model["runs"], model["cut"]) == ("tiny", list(runs), False)
    assert model["pass_1"]["mean"] == pytest.approx(68.75)
    assert model["pass_1"]["standard_error"] == pytest.approx(18.75)


def test_scores_as_markdown_say_what_the_error_is(world: World, runs: tuple[str, str]) -> None:
    out = world.run("palestra", "scores", *runs, "--markdown").out

    assert "| tiny | 12 | 96/96 | 2 | 68.75 ± 18.75 |" in out
    assert "- percent; ± is the standard error over seeds" in out


def test_scores_say_why_there_is_no_error(world: World, runs: tuple[str, str]) -> None:
    lines = (world.folder / runs[0]).read_text().splitlines(keepends=True)
    world.write(runs[0], "".join(lines[1:]))
    out = world.run("palestra", "scores", runs[0], "--k", "2").out

    assert "tiny: no ± where its seeds do not hold the same tasks" in out


def test_scores_say_over_how_many_tasks_they_are(world: World, runs: tuple[str, str]) -> None:
    lines = (world.folder / runs[0]).read_text().splitlines(keepends=True)
    world.write(runs[0], "".join(lines[1:]))
    out = world.run("palestra", "scores", runs[0], "--k", "4").out

    assert "tiny: pass@4 is over 11 of 12 tasks, those with 4 scored rollouts" in out


def test_scores_of_the_tasks_shared_miss_nothing(world: World, runs: tuple[str, str]) -> None:
    few = write_run(world, "few", lambda _: 2, tasks=6, n=2)
    args = (f"base={runs[0]}", f"few={few}", "--k", "2", "--allow-unmatched", "--json")
    base, other = json.loads(world.run("palestra", "scores", *args).out)["models"]

    assert (base["tasks"], base["requested"], base["pass_1"]["tasks"]) == (6, 24, 6)
    assert (other["pass_1"]["low"], other["pass_1"]["high"]) == (100.0, 100.0)


def test_scores_that_make_no_sense_are_refused(world: World, runs: tuple[str, str]) -> None:
    other = write_run(world, "d", lambda _: 2, expected_answer="5")

    assert (
        "a k of 9 needs 9 rollouts"
        in world.run("palestra", "scores", runs[0], "--k", "9").refused()
    )
    assert "passed twice" in world.run("palestra", "scores", runs[0], runs[0]).refused()
    assert (
        "have a different prompt or row"
        in world.run("palestra", "scores", runs[0], other).refused()
    )


def test_scores_of_two_prompts_need_names(world: World, runs: tuple[str, str]) -> None:
    other = write_run(world, "d", lambda _: 4, prompt="brief")
    allowed = "--allow-different-rows"

    refused = world.run("palestra", "scores", runs[0], other, allowed).refused()
    named = world.run("palestra", "scores", f"a={runs[0]}", f"d={other}", allowed, "--json").out

    assert "12 of 12 tasks have another prompt or row: they are not seeds of one model" in refused
    assert "give each run a name, as in plain=A verbose=B" in refused
    assert [m["pass_1"]["mean"] for m in json.loads(named)["models"]] == [50.0, 100.0]


@pytest.mark.parametrize(
    ("command", "advice"),
    [("compare", "compares them anyway"), ("scores", "as in plain=A verbose=B")],
)
def test_leaving_tasks_out_is_not_advised_where_all_differ(
    world: World, runs: tuple[str, str], command: str, advice: str
) -> None:
    other = write_run(world, "d", lambda _: 4, prompt="brief")

    refused = world.run("palestra", command, runs[0], other).refused()

    assert advice in refused
    assert "--allow-unmatched" not in refused


def test_a_path_with_an_equals_sign_is_a_path(world: World) -> None:
    write_run(world, "lr=0.1", lambda _: 2)
    found = json.loads(world.run("palestra", "scores", "lr=0.1/rollouts.jsonl", "--json").out)

    assert found["models"][0]["runs"] == [str(Path("lr=0.1/rollouts.jsonl"))]

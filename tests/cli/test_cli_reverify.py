"""`palestra reverify`: which verifier sees which row, without a model, and what the user is told."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_world import World, until

from palestra.analysis import load_run
from palestra.cli.reverifying import reverify
from palestra.errors import ConfigError, InputDataError
from palestra.rollouts import Manifest
from palestra.schema import read_jsonl
from palestra.settings import ReverifyArgs

LENIENT = """
from palestra import environment

@environment(data=[{"question": "2 + 2 = ?", "expected": "4"}], prompt="{question}")
def lenient(answer: str, expected: str) -> float:
    return float(expected in answer)
"""
SLOW = """
import asyncio
from palestra import ResourcesServer
from palestra.schema import VerifyRequest, VerifyResponse

class Slow(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        await asyncio.sleep(0.05)
        return self.reply(body, 1.0)
"""
BOUND = """
from palestra import ResourcesServer, Session
from palestra.schema import VerifyRequest, VerifyResponse

class Bound(ResourcesServer):
    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        return self.reply(body, float("seen" in session.state))
"""
UNFINISHED = """
policy_model:
  responses_api_models:
    openai_model:
      openai_base_url: ${policy_base_url}
      openai_api_key: ???
      openai_model: ${policy_model_name}
"""


def block(name: str, *, refers_to: str = "") -> str:
    """The config of a folder in the working directory, with its agent."""
    judge = f"{{type: responses_api_models, name: {refers_to}}}"
    own = f"{{judge_model_server: {judge}}}" if refers_to else "{}"
    return f"""
{name}:
  resources_servers:
    {name}: {own}
{name}_agent:
  responses_api_agents:
    simple_agent:
      resources_server: {{type: resources_servers, name: {name}}}
      model_server: {{type: responses_api_models, name: policy_model}}
"""


KEY = {"_ng_task_index": 0, "_ng_rollout_index": 0}


def stored(number: int, text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "content": content}
    return {
        "responses_create_params": {"input": f"question {number}"},
        "response": {"id": "r", "created_at": 0, "model": "tiny", "output": [item]},
        "reward": 0.0,
        **fields,
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, rows: Iterable[Any]) -> Path:
    path = Path(name)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def app(name: str, text: str) -> None:
    folder = Path("resources_servers") / name
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(text)


def again(rollouts: Path, *overrides: str, **how: Any) -> int:
    output = how.pop("output", Path("new.jsonl"))
    return reverify(ReverifyArgs(rollouts=rollouts, output=output, **how), list(overrides))


def rows(name: str = "new.jsonl") -> list[dict[str, Any]]:
    return [line.row for line in read_jsonl(Path(name))]


def write_manifest(path: str, class_name: str = "") -> None:
    """The manifest of a run of an environment in the file `path`."""
    settings = {"path": path, "class_name": class_name}
    server = {"type": "resources_servers", "implementation": "environment_file"}
    servers = {Path(path).stem: server | {"settings": settings}}
    Manifest("digest", {"servers": servers}, 1, 1, "1").write(Path("r_manifest.json"))


TWO = """
from palestra import Environment

class A(Environment):
    data = [{"question": "2 + 2 = ?"}]
    prompt = "{question}"

    def verify(self, answer):
        return 1.0

class B(A):
    pass
"""


@pytest.mark.parametrize(
    ("of_run", "verifying"),
    [("/w/strict.py", "lenient.py"), ("/w/lenient.py:A", "two.py:B"), ("/w/two.py:A", "two.py:B")],
)
@pytest.mark.slow
def test_rows_of_another_environment_are_verified_with_a_warning(
    here: Path, capsys: pytest.CaptureFixture[str], of_run: str, verifying: str
) -> None:
    Path("lenient.py").write_text(LENIENT)
    Path("two.py").write_text(TWO)
    rollouts = write("r.jsonl", [stored(0, "it is 4", expected="4")])
    write_manifest(*of_run.split(":"))

    assert again(rollouts, environment=verifying) == 0

    text = (
        f"warning: the rollouts are of {of_run.removeprefix('/w/')}, and {verifying} verifies them"
    )
    assert text in capsys.readouterr().err


@pytest.mark.slow
def test_an_edited_copy_of_the_environment_verifies_without_a_warning(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("lenient.py").write_text(LENIENT)
    rollouts = write("r.jsonl", [stored(0, "it is 4", expected="4")])
    write_manifest("/elsewhere/lenient.py")

    assert again(rollouts, environment="lenient.py") == 0

    assert "warning" not in capsys.readouterr().err


@pytest.mark.slow
def test_an_environment_of_one_file_verifies_without_any_config(here: Path) -> None:
    Path("my_env.py").write_text(LENIENT)
    rollouts = write(
        "run.jsonl", [stored(0, "it is 4", expected="4"), stored(1, "5", expected="4")]
    )

    assert again(rollouts, environment="my_env.py") == 0

    assert [row["reward"] for row in rows()] == [1.0, 0.0]


def test_each_row_goes_to_the_environment_of_its_agent(here: Path) -> None:
    app("always", SLOW)
    app("never", SLOW.replace("1.0", "-1.0"))
    Path("both.yaml").write_text(block("always") + block("never") + UNFINISHED)
    names = ["never_agent", "always_agent"]
    rollouts = write("run.jsonl", [stored(0, "", agent_ref={"name": name}) for name in names])

    assert again(rollouts, "+config_paths=[both.yaml]") == 0

    assert [row["reward"] for row in rows()] == [-1.0, 1.0]


def test_a_row_without_agent_goes_to_the_only_environment(here: Path) -> None:
    app("always", SLOW)
    Path("one.yaml").write_text(block("always"))

    assert again(write("run.jsonl", [stored(0, "")]), "+config_paths=[one.yaml]") == 0

    assert rows()[0]["reward"] == 1.0


def test_an_instance_of_the_configs_can_verify_every_row(here: Path) -> None:
    app("always", SLOW)
    app("never", SLOW.replace("1.0", "-1.0"))
    Path("both.yaml").write_text(block("always") + block("never"))
    rollouts = write("run.jsonl", [stored(0, "", agent_ref={"name": "always_agent"})])

    assert again(rollouts, "+config_paths=[both.yaml]", environment="never") == 0
    assert rows()[0]["reward"] == -1.0

    with pytest.raises(ConfigError, match="did you mean 'never'"):
        again(rollouts, "+config_paths=[both.yaml]", environment="nevr", overwrite=True)


def test_a_judge_is_only_missed_when_it_is_to_be_asked_anew(here: Path) -> None:
    judged = SLOW.replace(
        "class Slow(ResourcesServer):",
        "from palestra.server import ResourcesServerConfig, ServerReference\n"
        "class Config(ResourcesServerConfig):\n    judge_model_server: ServerReference\n\n"
        "class Slow(ResourcesServer):\n    config: Config\n",
    )
    app("judged", judged)
    Path("judged.yaml").write_text(block("judged", refers_to="policy_model") + UNFINISHED)
    rollouts = write("run.jsonl", [stored(0, "")])

    assert again(rollouts, "+config_paths=[judged.yaml]") == 0

    with pytest.raises(ConfigError, match="3 settings have no value"):
        again(rollouts, "+config_paths=[judged.yaml]", fresh_judge=True, overwrite=True)


def test_a_verifier_that_needs_its_session_is_refused_and_nothing_written(here: Path) -> None:
    app("bound", BOUND)
    Path("bound.yaml").write_text(block("bound"))
    rollouts = write("run.jsonl", [stored(0, "")])
    write("run_failures.jsonl", [stored(1, "", **KEY)])

    with pytest.raises(ConfigError, match="bound does not say") as refused:
        again(rollouts, "+config_paths=[bound.yaml]")
    assert list(here.glob("new*")) == []
    assert "`palestra select run.jsonl --failed --out run_again.jsonl`" in refused.value.hint


@pytest.mark.parametrize("failed_before", [False, True])
def test_no_failed_tasks_are_to_be_selected_where_all_rollouts_are_scored(
    here: Path, failed_before: bool
) -> None:
    app("bound", BOUND)
    Path("bound.yaml").write_text(block("bound"))
    rollouts = write("run.jsonl", [stored(0, "", **KEY)])
    if failed_before:
        write("run_failures.jsonl", [stored(0, "", **KEY)])

    with pytest.raises(ConfigError, match="bound does not say") as refused:
        again(rollouts, "+config_paths=[bound.yaml]")

    assert "palestra select" not in refused.value.hint
    assert "with --overwrite, runs all again" in refused.value.hint


def test_rewards_without_the_session_are_announced_with_their_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app("bound", BOUND)
    Path("bound.yaml").write_text(block("bound"))

    assert again(write("run.jsonl", [stored(0, "")]), "+config_paths=[bound.yaml]", force=True) == 0

    assert "the rewards may not be those of the rollouts, and are written to new.jsonl" in (
        capsys.readouterr().err
    )


def test_a_misspelt_environment_gets_the_nearest_name(here: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'mcqa'"):
        again(write("run.jsonl", [stored(0, "")]), environment="mqca")


def test_without_an_environment_it_says_how_to_name_one(here: Path) -> None:
    with pytest.raises(ConfigError, match="no environment is configured"):
        again(write("run.jsonl", [stored(0, "")]))


def test_rows_that_fail_are_counted_and_inputs_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollouts = write("run.jsonl", [stored(0, "\\boxed{A}", expected_answer="A"), stored(1, "B")])

    assert again(rollouts, environment="mcqa") == 1

    told = capsys.readouterr()
    assert "2 rows = 1 verified + 1 failed" in told.out
    assert (
        "1 of 2 rows could not be verified (data_error 1); the first: line 2 of run.jsonl: "
        in told.err
    )
    assert "pass their file with --inputs FILE" in told.err
    assert (len(rows()), len(rows("new_failures.jsonl"))) == (1, 1)


def test_fields_that_a_rollout_lacks_are_taken_from_the_runs_inputs_beside_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = stored(0, "\\boxed{A}", _ng_task_index=0)
    write("run_materialized_inputs.jsonl", [{**row, "expected_answer": "A"}])

    assert again(write("run.jsonl", [row]), environment="mcqa") == 0

    assert rows()[0]["reward"] == 1.0
    assert "is taken from run_materialized_inputs.jsonl" in capsys.readouterr().err


def test_the_output_can_be_profiled_with_the_inputs_of_the_run(here: Path) -> None:
    row = stored(0, "\\boxed{A}", expected_answer="A", _ng_task_index=0, _ng_rollout_index=0)
    task = {name: row[name] for name in row if name not in ("response", "reward")}
    inputs = write("run_materialized_inputs.jsonl", [task])

    assert again(write("run.jsonl", [row]), environment="mcqa") == 0

    assert Path("new_materialized_inputs.jsonl").read_bytes() == inputs.read_bytes()
    assert load_run(None, "new.jsonl").rollouts.reward.tolist() == [1.0]


def test_inputs_in_several_files_are_taken_together(here: Path) -> None:
    keys = [{"_ng_task_index": n, "_ng_rollout_index": 0} for n in (0, 1)]
    stored_rows = [stored(n, "\\boxed{A}", **key) for n, key in enumerate(keys)]
    for number, row in enumerate(stored_rows):
        task = {name: row[name] for name in row if name not in ("response", "reward")}
        part = write(f"part{number}_inputs.jsonl", [{**task, "expected_answer": "A"}])
        part.write_bytes(part.read_bytes().rstrip(b"\n"))  # as some editors write a file
    run = write("run.jsonl", stored_rows)

    assert again(run, environment="mcqa", inputs=Path("part*_inputs.jsonl")) == 0

    assert [row["reward"] for row in rows()] == [1.0, 1.0]
    assert len(Path("new_materialized_inputs.jsonl").read_text().splitlines()) == 2


def test_a_file_of_tasks_is_not_taken_for_the_inputs_of_the_run(here: Path) -> None:
    row = stored(0, "\\boxed{A}", expected_answer="A", _ng_task_index=0)
    tasks = write("tasks.jsonl", [row])

    assert again(write("run.jsonl", [row]), environment="mcqa", inputs=tasks) == 0

    assert not Path("new_materialized_inputs.jsonl").exists()


def test_the_changes_are_shown_by_pair_and_by_row(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    indices = {"_ng_task_index": 7, "_ng_rollout_index": 2}
    row = stored(0, "\\boxed{A}", expected_answer="A", **indices)

    again(write("run.jsonl", [row]), environment="mcqa")

    told = " ".join(capsys.readouterr().out.split())
    assert "mcqa 1 0 1 0 0 0 -> 1" in told
    assert "mcqa 0 -> 1 1" in told
    assert "line 1 (task 7, rollout 2) 0 -> 1" in told


def test_the_mean_of_all_rows_is_shown_beside_that_of_rows_with_a_previous_reward(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_time = stored(1, "\\boxed{B}", expected_answer="A")
    del first_time["reward"]

    again(
        write("run.jsonl", [stored(0, "\\boxed{A}", expected_answer="A"), first_time]),
        environment="mcqa",
    )

    told = capsys.readouterr().out
    assert "0 -> 1 is of the 1 row with a previous reward" in told
    assert "of all 2 verified rows it is 0.5" in told


def test_as_json_nothing_else_is_on_standard_output(world: World) -> None:
    row = stored(0, "\\boxed{A}", expected_answer="A")
    write(str(world.folder / "run.jsonl"), [row])
    words = ("-r", "run.jsonl", "-o", "new.jsonl", "-e", "mcqa", "--json")

    document: Mapping[str, Any] = json.loads(world.run("palestra", "reverify", *words).out)

    assert document["environments"]["mcqa"]["mean_after"] == 1.0


def test_an_output_that_is_there_is_refused_before_any_work(here: Path) -> None:
    write("new.jsonl", [])

    with pytest.raises(InputDataError, match="exists already"):
        again(Path("does_not_exist.jsonl"), environment="mcqa")


@pytest.mark.slow
def test_stopped_it_says_how_to_go_on_and_goes_on(world: World) -> None:
    server = world.folder / "resources_servers" / "slow"
    server.mkdir(parents=True)
    (server / "app.py").write_text(SLOW)
    world.write("slow.yaml", block("slow"))
    many = [json.dumps(stored(n, "", _ng_task_index=n, _ng_rollout_index=0)) for n in range(2000)]
    world.write("run.jsonl", "\n".join(many) + "\n")
    asked = ["reverify", "--rollouts", "run.jsonl", "--output", "new.jsonl", "-c", "slow.yaml"]
    partial = world.folder / "new.jsonl.partial"
    running = world.start("palestra", *asked, "--concurrency", "8")
    until(lambda: partial.exists() and partial.stat().st_size > 0)

    running.interrupt()

    assert running.ended(timeout_s=10) == 130
    assert "--resume goes on from there" in running.text()
    assert 0 < len(partial.read_bytes().splitlines()) < 2000
    done = world.run("palestra", *asked, "--concurrency", "2000", "--resume")
    assert done.code == 0, done.err
    assert [row["_ng_task_index"] for row in world.rows("new.jsonl")] == list(range(2000))
    assert not partial.exists()


@pytest.mark.slow
def test_the_command_refuses_tasks_in_one_clear_error(world: World) -> None:
    world.write("tasks.jsonl", json.dumps({"responses_create_params": {"input": "?"}}) + "\n")

    done = world.run(
        "palestra", "reverify", "--rollouts", "tasks.jsonl", "--output", "o.jsonl", "-e", "mcqa"
    )

    assert "holds tasks, not rollouts" in done.refused()
    assert world.files() == ["tasks.jsonl"]


def test_the_run_may_stand_without_its_flag(world: World) -> None:
    world.write("run.jsonl", "")

    by_flag = world.run("palestra", "reverify", "--rollouts", "run.jsonl", "-o", "x.jsonl")
    by_word = world.run("palestra", "reverify", "run.jsonl", "-o", "x.jsonl")

    assert by_word.refused() == by_flag.refused()


@pytest.mark.parametrize(
    ("force", "output"),
    [([], "out/run_reverified.jsonl"), (["--force"], "out/unsafe_run_reverified.jsonl")],
)
def test_a_reverification_without_an_output_is_answered_with_the_whole_command(
    world: World, force: list[str], output: str
) -> None:
    (world.folder / "out").mkdir()
    world.write("out/run.jsonl", json.dumps(stored(0, "it is 4", expected="4", **KEY)) + "\n")

    done = world.run("palestra", "reverify", "out/run.jsonl", "lenient.py", *force)

    words = ["palestra", "reverify", "out/run.jsonl", "lenient.py", *force, "--output", output]
    assert done.refused() == f"error: --output is required\nhint: {' '.join(words)}\n"


def write_lenient_run(world: World, question: str, *, answer: str, expected: str) -> None:
    """Write the environment `lenient.py`, and a run of one rollout of it with its inputs."""
    params = {"input": [{"role": "user", "content": question}]}
    row = {**stored(0, answer, expected=expected, **KEY), "responses_create_params": params}
    task = {field: row[field] for field in row if field not in ("response", "reward")}
    world.write("lenient.py", LENIENT)
    world.write("r.jsonl", json.dumps(row) + "\n")
    world.write("r_materialized_inputs.jsonl", json.dumps(task) + "\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", "question,expected\nHow many?,5\n"),
        ("rows.jsonl", '{"question": "How many?", "expected": "5"}\n'),
    ],
)
def test_corrected_data_of_an_environment_in_one_file_wins(
    world: World, name: str, text: str
) -> None:
    write_lenient_run(world, "How many?", answer="it is 5", expected="4")
    world.write(name, text)

    done = world.run(
        *("palestra", "reverify", "r.jsonl", "--environment", "lenient.py"),
        *("--inputs", name, "--output", "new.jsonl"),
    )

    assert done.code == 0, done.err
    scored = json.loads((world.folder / "new.jsonl").read_text())
    inputs = json.loads((world.folder / "new_materialized_inputs.jsonl").read_text())
    assert (scored["reward"], scored["expected"], inputs["expected"]) == (1.0, "5", "5")


def test_data_without_the_task_of_a_rollout_is_named_as_it_was_typed(world: World) -> None:
    write_lenient_run(world, "How many?", answer="it is 5", expected="4")
    world.write("part.csv", "question,expected\nHow few?,5\n")

    message = world.run(
        *("palestra", "reverify", "r.jsonl", "--environment", "lenient.py"),
        *("--inputs", "part.csv", "--output", "new.jsonl"),
    ).refused()

    assert "part.csv has no row with its prompt" in message


def test_data_that_was_corrected_since_the_run_is_a_warning(world: World) -> None:
    write_lenient_run(world, "2 + 2 = ?", answer="it is 4", expected="5")

    done = world.run(
        "palestra", "reverify", "r.jsonl", "--environment", "lenient.py", "--output", "new.jsonl"
    )

    assert "1 task of the environment has another expected today than in the run" in done.err


@pytest.mark.parametrize("expected", ["A", "B"])
def test_input_rows_that_were_corrected_since_the_run_are_a_warning(
    here: Path, capsys: pytest.CaptureFixture[str], expected: str
) -> None:
    write("r.jsonl", [stored(0, "B", expected_answer="A", **KEY)])
    inputs = {"responses_create_params": {"input": "question 0"}, "expected_answer": "A"}
    write("r_materialized_inputs.jsonl", [inputs | KEY])
    write("tasks.jsonl", [inputs | {"expected_answer": expected}])
    Manifest("digest", {"servers": {}}, 1, 1, "1", inputs=(str(here / "tasks.jsonl"),)).write(
        Path("r_manifest.json")
    )

    again(Path("r.jsonl"), environment="mcqa")

    text = "1 task of the environment has another expected_answer today than in the run"
    assert (text in capsys.readouterr().err) == (expected == "B")


def test_rows_without_a_prompt_are_no_inputs_of_another_environment(world: World) -> None:
    world.write("r.jsonl", json.dumps(stored(0, "it is 4", expected="4", **KEY)) + "\n")
    world.write("rows.csv", "question,expected\n2 + 2?,4\n")

    message = world.run(
        *("palestra", "reverify", "r.jsonl", "--inputs", "rows.csv"),
        *("--output", "x.jsonl", "--environment", "mcqa"),
    ).refused()

    assert "rows.csv has rows without a prompt" in message


def test_of_a_run_that_is_not_there_no_output_is_asked_for(world: World) -> None:
    assert (
        "error: there is no run gone.jsonl\n"
        in world.run("palestra", "reverify", "gone.jsonl").refused()
    )


def test_settings_of_nemo_gym_are_answered_with_the_flags(world: World) -> None:
    done = world.run(
        "palestra",
        "reverify",
        "+rollouts_jsonl_fpath=r.jsonl",
        "++output_jsonl_fpath=new.jsonl",
        "+config_paths=[a.yaml]",
    )

    message = done.refused()
    assert "rollouts_jsonl_fpath is --rollouts here, output_jsonl_fpath is --output here" in message
    assert (
        "hint: palestra reverify --rollouts r.jsonl --output new.jsonl '+config_paths=[a.yaml]'"
        in message
    )


def test_the_hints_name_the_environment_of_the_run(world: World) -> None:
    world.write("lenient.py", LENIENT)
    world.write("r.jsonl", json.dumps(stored(0, "it is 4", expected="4", **KEY)) + "\n")
    settings = {"path": "lenient.py", "class_name": ""}
    server = {"type": "resources_servers", "implementation": "environment_file"}
    servers = {"lenient": {**server, "settings": settings}}
    Manifest("digest", {"servers": servers}, 1, 1, "1").write(world.folder / "r_manifest.json")
    command = "palestra reverify r.jsonl --output r_reverified.jsonl"

    without_output = world.run("palestra", "reverify", "r.jsonl").refused()
    without_environment = world.run(*command.split()).refused()

    assert f"hint: {command} --environment lenient.py" in without_output
    assert "the environment of the run: --environment lenient.py" in without_environment
    assert world.run(*command.split(), "--environment", "lenient.py").code == 0

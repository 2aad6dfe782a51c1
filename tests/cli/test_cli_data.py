"""From a table to a prepared dataset, as its owner types it."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from cli_world import Done, World

pytestmark = pytest.mark.slow

STRING_MATCH = "resources_servers/string_match/configs/string_match.yaml"
AGENT = "string_match_simple_agent.responses_api_agents.simple_agent"
LINE = '{"responses_create_params": {"input": "x"}, "expected_answer": "y"}\n'


def datasets(*entries: str) -> str:
    return f"++{AGENT}.datasets=[{','.join(entries)}]"


def entry(name: str, kind: str = "train", **more: str) -> str:
    others = "".join(f", {key}: {value}" for key, value in more.items())
    return f"{{name: {name}, type: {kind}, license: MIT, jsonl_fpath: {name}.jsonl{others}}}"


def prepare(world: World, *arguments: str) -> Done:
    common = ("--mode", "train_preparation", "--output-dir", "out", "-c", STRING_MATCH)
    return world.run("palestra", "prepare", *common, *arguments)


def test_datasets_are_prepared_and_what_is_found_is_told(world: World) -> None:
    world.write("a.jsonl", LINE * 2)

    done = prepare(world, datasets(entry("a", num_repeats="3")))

    assert done.code == 0, done.err
    assert "agents with datasets: string_match_simple_agent" in done.out
    assert "found    a.jsonl  (train, a of string_match_simple_agent)" in done.out
    rows = world.rows("out/train.jsonl")
    assert [row["agent_ref"]["name"] for row in rows] == ["string_match_simple_agent"] * 6
    assert {"a_metrics.json", "a_prepare.jsonl", "out/train_metrics.json"} <= {*world.files()}


@pytest.mark.parametrize("licence", ["MIT", "banana"])
def test_ng_prepare_data_warns_of_a_license_that_nemo_gym_refuses(
    world: World, licence: str
) -> None:
    world.write("a.jsonl", LINE)

    done = world.run(
        "ng_prepare_data",
        f"+config_paths=[{STRING_MATCH}]",
        *("+mode=train_preparation", "+output_dirpath=out"),
        datasets(entry("a").replace("license: MIT", f"license: {licence}")),
    )

    assert done.code == 0, done.err
    assert ("NeMo Gym refuses the license 'banana'" in done.err) == (licence == "banana")


def test_a_preparation_without_any_config_says_so_and_nothing_else(world: World) -> None:
    done = world.run("ng_prepare_data", "+mode=example_validation", "+output_dirpath=out")

    assert "there are no datasets for example_validation: no config file is given" in done.refused()
    assert "none" not in done.out


def test_missing_files_are_all_named_with_the_option_that_fetches_them(world: World) -> None:
    world.write("a.jsonl", LINE)
    hub = "{repo_id: org/b}"

    done = prepare(world, datasets(entry("a"), entry("b", huggingface_identifier=hub), entry("c")))

    assert "found    a.jsonl" in done.out
    assert "missing  b.jsonl" in done.out
    said = done.refused()
    assert "b.jsonl (train dataset b of" in said
    assert "c.jsonl (train dataset c of" in said
    assert "--download" in said
    assert not (world.folder / "out").exists()


def test_rows_that_the_environment_would_refuse_are_named(world: World) -> None:
    world.write("a.jsonl", LINE + '{"responses_create_params": {"input": "x"}}\n')

    said = prepare(world, datasets(entry("a"))).refused()

    assert (
        'line 2: /: "expected_answer" is a required property (required by string_match/verify)'
        in said
    )
    assert world.files() == ["a.jsonl"]


def test_the_command_of_the_field_takes_overrides(world: World) -> None:
    world.write("a.jsonl", LINE)
    program = world.write("ng.py", "from palestra.cli.ng import prepare_data\nprepare_data()\n")
    settings = ("+mode=train_preparation", "+output_dirpath=out", "+policy_model_name=x")

    done = _run(world, program, f"+config_paths=[{STRING_MATCH}]", datasets(entry("a")), *settings)

    assert done.code == 0, done.err
    assert len(world.rows("out/train.jsonl")) == 1


def test_settings_that_are_missing_are_all_named(world: World) -> None:
    said = world.run("palestra", "prepare").refused()

    assert "--output-dir is required" in said
    assert "--mode is required" in said


def _run(world: World, program: Path, *arguments: str) -> Done:
    done = subprocess.run(
        [sys.executable, program, *arguments],
        cwd=world.folder,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_files_of_a_glob_are_imported_into_one_output_that_is_named(world: World) -> None:
    world.write("t1.csv", "question,answer\none,1\n")
    (world.folder / "t2.csv.gz").write_bytes(gzip.compress(b"question,answer\ntwo,2\n"))
    command = ("palestra", "dataset", "import", "t*.csv*", "--answer", "answer")

    assert "--output is missing: 2 files" in world.run(*command).refused()
    assert world.run(*command, "--output", "rows.jsonl").code == 0

    assert [row["expected_answer"] for row in world.rows("rows.jsonl")] == ["1", "2"]


def file_environment(world: World, field: str, prompt: str = "{question}") -> str:
    """Write an environment in one file whose `verify` takes `field`, and return its name."""
    world.write(
        "quiz.py",
        "from palestra import Environment\n"
        "class Quiz(Environment):\n"
        "    data = 'not_yet.csv'\n"
        f"    prompt = {prompt!r}\n"
        f"    def verify(self, answer, {field}):\n"
        f"        return answer == {field}\n",
    )
    return "quiz.py"


def import_for_file(world: World, table: str, *arguments: str) -> Done:
    world.write("t.csv", table)
    return world.run("palestra", "dataset", "import", "t.csv", "--env", "quiz.py", *arguments)


def test_rows_for_an_environment_in_one_file_keep_the_fields_it_takes(world: World) -> None:
    file_environment(world, "target")

    done = import_for_file(
        world, "problem,solution\nTwo?,2\n", "--map", "question=problem", "--map", "target=solution"
    )

    assert done.code == 0, done.err
    [row] = world.rows("t_rows.jsonl")
    assert row["target"] == "2"
    assert row["responses_create_params"]["input"] == [{"role": "user", "content": "Two?"}]
    assert "next: palestra eval quiz.py --input t_rows.jsonl" in done.out


def test_a_usual_name_of_answers_is_the_expected_answer_where_a_file_takes_it(world: World) -> None:
    file_environment(world, "expected_answer")

    done = import_for_file(world, "question,answer\nTwo?,2\n")

    assert done.code == 0, done.err
    assert [row["expected_answer"] for row in world.rows("t_rows.jsonl")] == ["2"]


def test_rows_without_a_field_that_a_file_takes_are_refused_before_writing(world: World) -> None:
    file_environment(world, "target")

    done = import_for_file(world, "question,solution\nTwo?,2\n", "--answer", "solution")

    assert "asks for 'target', which no row has" in done.refused()
    assert "--map FIELD=solution" in done.err
    assert "t_rows.jsonl" not in world.files()


def test_a_row_that_a_file_asks_nothing_is_named_by_its_line(world: World) -> None:
    file_environment(world, "target")

    done = import_for_file(world, "question,target\nTwo?,2\n\n,5\n")

    assert "line 4: the prompt is empty" in done.refused()
    assert "t_rows.jsonl" not in world.files()


def test_a_prompt_beside_that_of_a_file_is_refused(world: World) -> None:
    file_environment(world, "target")
    world.write("prompt.yaml", "user: 'Now {question}'\n")

    done = import_for_file(world, "question,target\nTwo?,2\n", "--prompt", "prompt.yaml")

    assert "--prompt has no effect: quiz.py has a prompt of its own" in done.refused()


def test_a_file_without_a_prompt_gets_that_of_the_import(world: World) -> None:
    file_environment(world, "target", prompt="")
    world.write("prompt.yaml", "user: 'Now {question}'\n")

    done = import_for_file(world, "question,target\nTwo?,2\n", "--prompt", "prompt.yaml")

    assert done.code == 0, done.err
    [row] = world.rows("t_rows.jsonl")
    assert row["responses_create_params"]["input"] == [{"role": "user", "content": "Now Two?"}]
    assert row["target"] == "2"


def test_prompts_are_rendered_for_the_rows_of_a_glob(world: World) -> None:
    world.write("prompt.yaml", "user: '{question}?'\n")
    world.write("a1.jsonl", '{"question": "one"}\n')
    (world.folder / "a2.jsonl.gz").write_bytes(gzip.compress(b'{"question": "two"}\n'))

    done = world.run(
        *("palestra", "render-prompts", "-i", "a*.jsonl*", "--prompt", "prompt.yaml"),
        *("-o", "rows.jsonl"),
    )

    assert done.code == 0, done.err
    inputs = [row["responses_create_params"]["input"] for row in world.rows("rows.jsonl")]
    assert [messages[0]["content"] for messages in inputs] == ["one?", "two?"]


def test_a_prompt_without_a_field_of_the_rows_is_a_warning(world: World) -> None:
    world.write("prompt.yaml", "user: Begin.\n")
    world.write("a.jsonl", '{"question": "one"}\n')

    done = world.run(
        "palestra", "render-prompts", "-i", "a.jsonl", "--prompt", "prompt.yaml", "-o", "b"
    )

    assert (done.code, len(world.rows("b"))) == (0, 1)
    assert "prompt.yaml names no field of the rows" in done.err


OLD_ROLLOUT = (
    '{"responses_create_params": {"input": "2 + 2?"}, "response": {"output": []}, "reward": 1.0, '
    '"agent_ref": {"name": "quiz"}}\n'
)
IMPORT_ROLLOUTS = "palestra dataset import old.jsonl --rollouts --output old_run.jsonl"


@pytest.mark.parametrize(
    "command",
    [
        "palestra profile old.jsonl",
        "palestra show old.jsonl 0:0",
        "palestra compare old.jsonl old.jsonl.gz",
        "palestra diagnose old.jsonl",
        "palestra select old.jsonl --out picked.jsonl",
        "palestra dataset import old.jsonl --output rows.jsonl",
        "ng_reward_profile +rollouts_jsonl_fpath=old.jsonl",
    ],
)
def test_rollouts_that_are_no_run_are_refused_with_the_command_that_makes_one(
    world: World, command: str
) -> None:
    world.write("old.jsonl", OLD_ROLLOUT)
    (world.folder / "old.jsonl.gz").write_bytes(gzip.compress(OLD_ROLLOUT.encode()))

    assert f"`{IMPORT_ROLLOUTS}`" in world.run(*command.split()).refused()


def test_rollouts_that_are_made_a_run_can_be_profiled_and_shown(world: World) -> None:
    world.write("old.jsonl", OLD_ROLLOUT * 2)

    done = world.run(*IMPORT_ROLLOUTS.split())

    assert "wrote 2 rollouts of 1 task" in done.out, done.err
    assert "2/2" in world.run("palestra", "profile", "old_run.jsonl").out
    assert "reward 1" in world.run("palestra", "show", "old_run.jsonl", "0:1").out


def test_fields_that_rollouts_of_one_task_do_not_share_are_named(world: World) -> None:
    rows = (
        OLD_ROLLOUT.replace('"reward"', f'"gold": "4", "said": "{said}", "reward"') for said in "ab"
    )
    world.write("old.jsonl", "".join(rows))

    done = world.run(*IMPORT_ROLLOUTS.split())

    assert "not in the tasks, because rollouts of one task differ in them: said\n" in done.out


def test_tasks_are_not_made_of_rollouts_that_are_taken_as_they_are(world: World) -> None:
    world.write("old.jsonl", OLD_ROLLOUT)

    error = world.run(*IMPORT_ROLLOUTS.split(), "--map", "a=b").refused()

    assert "--map cannot be combined" in error

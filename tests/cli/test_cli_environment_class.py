"""An environment in one file, with tools and state, in every command that takes an environment."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from cli_world import KEY, OPENAI, FakeEndpoint, World, reply

from palestra.rollouts.lineage import selections
from palestra.schema import called

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SHELF = '''from palestra import Environment, ToolError, call, tool


class Shelf(Environment):
    """Bring a shelf into the wanted state."""

    data = "tasks.jsonl"
    prompt = "It holds {stock}. Leave exactly {wanted}."
    bonus: float = 0.1

    def start(self, task):
        self.stock = dict(task["stock"])

    @tool
    def take(self, name: str, count: int = 1) -> dict[str, int]:
        """Take things from the shelf."""
        if self.stock.get(name, 0) < count:
            raise ToolError(f"there are {self.stock.get(name, 0)} of {name}")
        self.stock[name] -= count
        return self.stock

    def gold(self, task):
        left = task["stock"]["apple"] - task["wanted"]["apple"]
        return [call("take", name="apple", count=left), "Good."]

    def verify(self, answer, task):
        return {"state": self.stock == task["wanted"], "polite": self.bonus * ("done" in answer)}
'''
TASKS = [
    {"stock": {"apple": 3}, "wanted": {"apple": 2}},
    {"stock": {"apple": 4}, "wanted": {"apple": 2}},
]


@pytest.fixture
def shelf(world: World, fake: FakeEndpoint) -> World:
    """A folder with the file and its tasks; the model takes an apple, then answers."""
    world.write("shelf.py", SHELF)
    world.write("tasks.jsonl", "".join(json.dumps(task) + "\n" for task in TASKS))
    taking = {**reply(), "output": [called("take", {"name": "apple"}).model_dump()]}

    def next_answer(asked: int) -> None:
        fake.body = taking if asked % 2 else reply()

    fake.before_answer = next_answer
    return world


def model(fake: FakeEndpoint) -> list[str]:
    return ["--model", "openai:tiny", *fake.policy]


def evaluated(world: World, fake: FakeEndpoint, *more: str) -> list[dict[str, Any]]:
    """The scored rows of an evaluation, in the order of the tasks."""
    output = ["--output", "out/r.jsonl", "--concurrency", "1"]
    done = world.run("palestra", "eval", "shelf.py", *model(fake), *output, *more)
    assert done.code == 0, done.err
    return sorted(world.rows("out/r.jsonl"), key=lambda row: row["_ng_task_index"])


def test_eval_runs_tools_and_records_components(shelf: World, fake: FakeEndpoint) -> None:
    first, second = evaluated(shelf, fake)

    assert [first["reward_components"]["state"], second["reward_components"]["state"]] == [1.0, 0.0]
    assert first["agent_ref"]["name"] == "shelf_agent"


def test_a_setting_changes_the_reward_and_is_in_the_manifest(
    shelf: World, fake: FakeEndpoint
) -> None:
    first, _ = evaluated(shelf, fake, "--set", "bonus=0.5")

    assert first["reward"] == 1.5
    assert '"bonus":0.5' in Path(shelf.folder / "out/r_manifest.json").read_text().replace(" ", "")


def test_an_unknown_setting_is_refused_before_the_run(shelf: World, fake: FakeEndpoint) -> None:
    refused = shelf.run("palestra", "eval", "shelf.py", *model(fake), "--set", "bonos=1").refused()

    assert "Shelf has no setting 'bonos'; did you mean 'bonus'?" in refused


def test_a_tool_without_a_docstring_is_a_warning(shelf: World, fake: FakeEndpoint) -> None:
    shelf.write("shelf.py", SHELF.replace('        """Take things from the shelf."""\n', ""))

    done = shelf.run("palestra", "eval", "shelf.py", *model(fake), "--output", "out/r.jsonl")

    assert done.code == 0, done.err
    warnings = [line for line in done.err.splitlines() if "docstring" in line]
    assert warnings == [
        "warning: shelf.py:14: the tool take has no docstring, so the model sees no description"
    ]


def test_reverify_replays_the_calls(shelf: World, fake: FakeEndpoint) -> None:
    evaluated(shelf, fake)
    shelf.write(
        "shelf.py",
        SHELF.replace("self.stock == task", "2 * (self.stock == task").replace(
            '["wanted"], "polite"', '["wanted"]), "polite"'
        ),
    )
    done = shelf.run(
        "palestra", "reverify", "-r", "out/r.jsonl", "-e", "shelf.py", "-o", "out/again.jsonl"
    )

    assert done.code == 0, done.err
    rewards = [row["reward_components"]["state"] for row in shelf.rows("out/again.jsonl")]
    assert sorted(rewards) == [0.0, 2.0]


def test_the_next_command_names_the_environment_as_the_working_directory_has_it(
    shelf: World, fake: FakeEndpoint
) -> None:
    evaluated(shelf, fake)
    (shelf.folder / "aside").mkdir()

    selected = shelf.run(
        *("palestra", "select", "../out/r.jsonl", "--band", "0..1", "--out", "learn.jsonl"),
        within="aside",
    )

    assert f"next: palestra eval {shelf.folder / 'shelf.py'} " in selected.out


def test_selected_tasks_are_run_again_by_input(shelf: World, fake: FakeEndpoint) -> None:
    shelf.write("shelf.py", SHELF.replace("bonus: float = 0.1", "bonus: float = 0.0"))
    evaluated(shelf, fake)
    selected = shelf.run(
        "palestra", "select", "out/r.jsonl", "--band", "0.5..1", "--out", "out/learn.jsonl"
    )
    assert selected.code == 0, selected.err

    [command] = [line for line in selected.out.splitlines() if line.startswith("next: ")]
    done = shelf.run(*shlex.split(command.removeprefix("next: ").replace("****", KEY)))

    assert done.code == 0, done.err
    assert [row["stock"] for row in shelf.rows("out/learn_rollouts.jsonl")] == [{"apple": 3}]


def test_a_run_of_tasks_that_were_selected_from_shards_names_them(
    shelf: World, fake: FakeEndpoint
) -> None:
    collect = ["collect", "--config", "shelf.py", "--config", OPENAI, *fake.policy, shelf.head]
    for shard in ("0/2", "1/2"):
        output = ["--input", "shelf.py", "--output", f"out/part{shard[0]}.jsonl", "--shard", shard]
        assert shelf.run("palestra", *collect, *output).code == 0
    select = ["select", "out/part*.jsonl", "--band", "0..0.5", "--solved-at", "1", "--out"]
    selected = shelf.run("palestra", *select, "out/chosen.jsonl")
    assert selected.code == 0, selected.err

    again = shelf.run(
        "palestra", *collect, "--input", "out/chosen.jsonl", "--output", "again/r.jsonl"
    )

    origin = "out/part0.jsonl, out/part1.jsonl"
    assert again.code == 0, again.err
    assert f"chosen by their rewards in {origin}" in again.err
    assert f"tasks chosen from: {origin}" in shelf.run("palestra", "show", "again/r.jsonl").out
    [entry] = json.loads(shelf.run("palestra", "runs", "again", "--json").out)
    assert entry["selected_from"] == origin
    compare = ["compare", "out/part*.jsonl", "again/r.jsonl", "--allow-unmatched"]
    compared = shelf.run("palestra", *compare)
    assert "chosen by their rewards" in compared.out + compared.err


def test_the_rows_of_all_files_that_match_a_glob_are_used(shelf: World, fake: FakeEndpoint) -> None:
    for number in range(2):
        row = {"stock": {"apple": number + 1}, "wanted": {"apple": number}}
        shelf.write(f"part-{number}.jsonl", json.dumps(row) + "\n")

    rows = evaluated(shelf, fake, "--input", "part-*.jsonl")
    asked = ("--input", "part-*.jsonl", "--output", "again/r.jsonl")
    shelf.run("palestra", "collect", "shelf.py", *model(fake), *asked)

    assert [row["stock"]["apple"] for row in rows] == [1, 2]
    tasks = sorted(path.name for path in (shelf.folder / "again").glob("*_tasks.jsonl"))
    assert tasks == ["r_shelf_agent_1_tasks.jsonl", "r_shelf_agent_tasks.jsonl"]


def test_collect_takes_the_file_as_a_config(shelf: World, fake: FakeEndpoint) -> None:
    done = shelf.run(
        *("palestra", "collect", "shelf.py", *model(fake), "--output", "out/c.jsonl"),
    )

    assert done.code == 0, done.err
    assert len(shelf.rows("out/c.jsonl")) == 2


def test_collect_renders_rows_of_its_own(shelf: World, fake: FakeEndpoint) -> None:
    shelf.write("mine.csv", 'stock,wanted\n"a pear","nothing"\n')
    shelf.write("shelf.py", SHELF.replace('dict(task["stock"])', "{}"))

    done = shelf.run(
        *("palestra", "collect", "shelf.py", *model(fake)),
        *("--input", "mine.csv", "--output", "out/c.jsonl"),
    )

    assert done.code == 0, done.err
    [row] = shelf.rows("out/c.jsonl")
    prompt = row["responses_create_params"]["input"][0]["content"]
    assert prompt == "It holds a pear. Leave exactly nothing."


def test_a_run_over_jobs_keeps_by_whose_rewards_its_tasks_were_chosen(
    shelf: World, fake: FakeEndpoint
) -> None:
    evaluated(shelf, fake)
    chosen = ("--solved-at", "1.05", "--band", "0..0.5", "--limit", "1", "--out", "chosen.jsonl")
    assert shelf.run("palestra", "select", "out/r.jsonl", *chosen).code == 0

    done = shelf.run(
        *("palestra", "cluster", "rollouts", "-c", "shelf.py", "--input-file", "chosen.jsonl"),
        *("--agent-name", "shelf_agent", "--server-address", "http://host.invalid/v1"),
        *("--model", "m", "--output-dir", "far", "--dry-run"),
    )

    assert done.code == 0, done.err
    [origin] = selections([shelf.folder / "far" / "shelf_tasks.jsonl"])
    assert origin.rollouts == (str(shelf.folder / "out" / "r.jsonl"),)


def test_doctor_examines_the_file(shelf: World, fake: FakeEndpoint) -> None:
    done = shelf.run("palestra", "doctor", "shelf.py", *model(fake), "--json")

    report = json.loads(done.out)
    assert done.code == 0, done.out
    assert not [check for check in report["findings"] if check.get("severity") == "error"]
    assert not (shelf.folder / "runs").exists()


def test_verify_env_and_test_begin_with_the_gold(shelf: World) -> None:
    verified = shelf.run("palestra", "verify-env", "shelf.py", "--hostile-seconds", "5")
    tested = shelf.run("palestra", "test", "shelf.py", "--json")

    assert verified.code == 0, verified.out
    [report] = json.loads(tested.out)
    assert [check["check"] for check in report["checks"]] == ["rows", "gold", "tools", "tests"]
    assert report["passed"]


def test_a_prompt_that_is_no_text_is_refused_by_every_command(
    shelf: World, fake: FakeEndpoint
) -> None:
    shelf.write(
        "shelf.py", SHELF.replace('"It holds', '["It holds').replace('wanted}."', 'wanted}."]')
    )

    for command in (
        ("eval", "shelf.py", *model(fake)),
        ("verify-env", "shelf.py"),
        ("init", "--from", "shelf.py"),
        ("prepare", "shelf.py", "--output-dir", "prepared", "--mode", "train_preparation"),
    ):
        refused = shelf.run("palestra", *command).refused()
        assert "shelf: prompt must be a text, not list" in refused


def test_an_exception_without_a_text_is_named_alone(shelf: World, fake: FakeEndpoint) -> None:
    shelf.write(
        "stops.py",
        "from palestra import environment\n\n"
        '@environment(data=[{"q": "?"}], prompt="{q}")\n'
        "def verify(answer):\n    raise KeyboardInterrupt\n",
    )

    shelf.run("palestra", "eval", "stops.py", *model(fake), "--output", "out/r.jsonl")

    [failure] = shelf.rows("out/r_failures.jsonl")
    assert "stops/verify raised KeyboardInterrupt" in json.dumps(failure)
    assert "KeyboardInterrupt:" not in json.dumps(failure)


def test_findings_about_the_same_answer_are_one_line(shelf: World) -> None:
    shelf.write(
        "last.py",
        "from palestra import environment\n\n"
        'ROWS = [{"q": f"{n} + {n}", "expected": str(2 * n)} for n in (3, 4)]\n\n'
        '@environment(data=ROWS, prompt="{q}", gold="{expected}")\n'
        "def verify(answer, expected):\n    return answer.split()[-1] == expected\n",
    )

    done = shelf.run("palestra", "verify-env", "last.py", "--hostile-seconds", "1")

    wrong = done.out.partition("\nwrong\n")[2].partition("\nhostile\n")[0]
    assert [line.split()[:4] for line in wrong.splitlines() if "IndexError" in line] == [
        ["0,", "1", "empty,", "prompt"]
    ]


def test_tests_beside_the_file_are_run(shelf: World) -> None:
    shelf.write(
        "test_shelf.py", "from shelf import Shelf\n\ndef test_it():\n    assert not Shelf\n"
    )

    tested = shelf.run("palestra", "test", "shelf.py", "--json")

    [report] = json.loads(tested.out)
    assert tested.code == 1
    assert report["checks"][-1]["passed"] is False


def test_prepare_writes_the_rows(shelf: World) -> None:
    done = shelf.run(
        *("palestra", "prepare", "shelf.py"),
        *("--output-dir", "prepared", "--mode", "train_preparation"),
    )

    assert done.code == 0, done.err
    assert [row["stock"] for row in shelf.rows("prepared/train.jsonl")] == [
        task["stock"] for task in TASKS
    ]


def test_a_folder_made_of_the_file_has_the_same_tasks_and_rewards(
    shelf: World, fake: FakeEndpoint
) -> None:
    ours = evaluated(shelf, fake)
    made = shelf.run("palestra", "init", "--from", "shelf.py")
    assert made.code == 0, made.err

    done = shelf.run(
        *("palestra", "eval", "resources_servers/shelf", *model(fake)),
        *("--output", "out/folder.jsonl", "--concurrency", "1"),
    )

    assert done.code == 0, done.err
    theirs = sorted(shelf.rows("out/folder.jsonl"), key=lambda row: row["_ng_task_index"])
    kept = ("stock", "wanted", "reward", "responses_create_params", "agent_ref")
    assert [[row[k] for k in kept] for row in theirs] == [[row[k] for k in kept] for row in ours]
    assert (shelf.folder / "resources_servers/shelf/tasks.jsonl").is_file()


def test_one_of_several_classes_is_named(shelf: World, fake: FakeEndpoint) -> None:
    shelf.write("shelf.py", SHELF + "\n\nclass Other(Environment):\n    verify = Shelf.verify\n")

    refused = shelf.run("palestra", "eval", "shelf.py", *model(fake)).refused()
    assert "name one of them: shelf.py:Shelf" in refused
    done = shelf.run("palestra", "eval", "shelf.py:Shelf", *model(fake), "--output", "out/r.jsonl")

    assert done.code == 0, done.err


def test_script_metadata_names_requirements(shelf: World, fake: FakeEndpoint) -> None:
    metadata = '# /// script\n# dependencies = ["numpy", "no-such-package-of-palestra"]\n# ///\n'
    shelf.write("shelf.py", metadata + SHELF)

    refused = shelf.run("palestra", "eval", "shelf.py", *model(fake))

    assert "shelf.py runs in an environment of its own, with no-such-package" in refused.err
    assert refused.code in {1, 2}
    assert "numpy" not in refused.err.partition("environment of its own")[2].partition("\n")[0]


def test_rows_of_the_hub_in_offline_mode_are_refused_at_once(
    shelf: World, fake: FakeEndpoint
) -> None:
    shelf.environment["HF_HUB_OFFLINE"] = "1"
    shelf.write("shelf.py", SHELF.replace('data = "tasks.jsonl"', 'data = "hf:org/set/test"'))

    refused = shelf.run("palestra", "eval", "shelf.py", *model(fake), timeout_s=20).refused()

    assert "HF_HUB_OFFLINE is set" in refused

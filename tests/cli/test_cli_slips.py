"""Slips at the command line: each is answered with what to type."""

import json

import pytest
from cli_world import World

from listed_runs import write_run
from profiled_runs import scored

FILE = """from palestra import environment


@environment(data=[{"q": "1 + 1 = ?", "a": "2"}], prompt="{q}")
def verify(answer, a):
    return answer == a
"""
MODEL = ("--model", "vllm:m@http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (
            ("eval", "sums.py", *MODEL, "--input", "http://example.com/x.jsonl"),
            "http://example.com/x.jsonl is a URL, and rows are read from files",
        ),
        (
            ("eval", "sums.py", *MODEL, "--output", "out/"),
            "--output: is a folder, and should be a file that ends with .jsonl",
        ),
        (
            ("verify-env", "sums.py", "more.py"),
            "`palestra verify-env` examines one environment at a time: sums.py, or more.py",
        ),
        (
            ("eval", "sums.py::verify", *MODEL),
            "there is no environment 'sums.py::verify'; did you mean 'sums.py:verify'?",
        ),
        (
            ("eval", "sums.py", "-m", "vllm:m"),
            "there is no option -m: write --model MODEL",
        ),
        (("eval", "rows.jsonl", *MODEL), "`palestra eval ENV --input rows.jsonl`"),
        (("eval", ".", *MODEL), "./app.py are missing\nhint: name one in it: more.py, sums.py"),
        (("eval", "team/games", *MODEL), "hint: name one in it: team/games/dice.py"),
        (("eval", "league", *MODEL), "hint: name one in it: league/darts.py"),
        (("show", "trained.jsonl"), "has outcomes of training, which `palestra view` shows"),
        (("show", "trained.jsonl", "0:0"), "has outcomes of training, which `palestra view` shows"),
        (
            ("eval", "sums.py", *MODEL, "--input", "headless.csv"),
            "the first line of headless.csv names the columns, and it looks like data (5, 3, 8)",
        ),
        (
            ("eval", "sums.py", *MODEL, "--input", "array.jsonl"),
            "the file is one JSON array, not an object a line",
        ),
        (
            ("eval", "sums.py", *MODEL, "--input", "array.jsonl"),
            "hint: or give the file a name that ends in .json",
        ),
        (("report", "run"), "no such command 'report': write palestra profile RUN"),
        (("serve",), "no such command 'serve': write palestra run"),
        (("import",), "no such command 'import': write palestra dataset import"),
        (("dataset", "prepare"), "no such command 'prepare': write palestra prepare"),
        (("runs", "run/rollouts.jsonl"), "`palestra show run/rollouts.jsonl` shows the run"),
        (
            ("eval", "sums.py", *MODEL, "--input", "head.csv"),
            "the first line names the columns only",
        ),
        (
            ("eval", "sums.py", *MODEL, "--input", "hf:acme/sums"),
            "`palestra dataset import hf:acme/sums` makes a file of rows of it",
        ),
        (
            ("eval", "sums.py", *MODEL, "--input", "latin.csv"),
            "latin.csv cannot be read, line 3: byte 0xe9 at column 2 is not UTF-8",
        ),
        (
            ("eval", "sums.py", *MODEL, "--input", "latin.csv"),
            "`iconv -f latin1 -t utf-8 latin.csv > utf8_latin.csv`",
        ),
        (
            ("eval", "sums.py", *MODEL, "--input", "commas.csv"),
            'line 2: 3 cells under 2 columns; put a cell that has a comma in it into quotes ("…")',
        ),
        (("eval", "sums.py", *MODEL, "max_output_tokens=5"), "write --max-output-tokens 5"),
        (("eval", "sums.py", *MODEL, "+resume=true"), "write --resume"),
        (
            ("eval", "sums.py", *MODEL, "temperature=1", "bogus=2"),
            "temperature is a flag of this command, not an override",
        ),
        (("collect", "output=x.jsonl"), "write --output x.jsonl"),
        (("show", "mcqa", "--row", "99"), "its rows are --row 0 to --row 4"),
        (("benchmark", "prepare", "nope"), "there is no benchmark 'nope': no agent has a dataset"),
    ],
)
def test_a_slip_is_answered_with_what_to_type(
    world: World, command: tuple[str, ...], answer: str
) -> None:
    world.write("sums.py", FILE)
    world.write("more.py", FILE)
    (world.folder / "team" / "games").mkdir(parents=True)
    world.write("team/games/dice.py", FILE)
    (world.folder / "league").mkdir()
    world.write("league/darts.py", FILE)
    world.write("trained.jsonl", '{"outcome": "completed", "task_id": 0, "reward": 1.0}\n')
    world.write("head.csv", "q,a\n")
    world.write("headless.csv", "5,3,8\n6,3,9\n")
    world.write("array.jsonl", '[{"q": "1 + 1", "a": "2"}]\n')
    world.write("rows.jsonl", '{"q": "1 + 1", "a": "2"}\n')
    world.write("commas.csv", "q,a\nOslo, Norway,2\n")
    (world.folder / "latin.csv").write_bytes("q,a\n1,2\ncé,3\n".encode("latin-1"))
    (world.folder / "out").mkdir()
    write_run(world.folder / "run", [scored(0, 0, 1.0)], requested=1)

    message = world.run("palestra", *command).refused()

    assert answer in message
    assert "environments: arc_agi" not in message


def test_the_doctor_answers_an_override_that_is_a_flag_with_the_flag(world: World) -> None:
    done = world.run("palestra", "doctor", "concurrency=8", "--json")

    [finding] = json.loads(done.out)["findings"]
    assert finding["symptom"] == "concurrency is a flag of this command, not an override"
    assert finding["next_action"] == "write --concurrency 8"


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("e.csv", "q\n", "the first line names the columns only"),
        ("e.json", "[]", '[{"FIELD": …}, …]'),
        ("e.jsonl", "", '{"FIELD": …} a line'),
    ],
)
def test_a_file_without_rows_is_answered_with_how_a_row_is_written(
    world: World, name: str, text: str, row: str
) -> None:
    world.write("sums.py", FILE)
    world.write(name, text)

    assert row in world.run("palestra", "eval", "sums.py", *MODEL, "--input", name).refused()


def test_the_help_of_eval_says_which_model_is_the_default(world: World) -> None:
    text = " ".join(world.run("palestra", "eval", "-h").out.split())

    assert "Default policy_model of the configs; without configs, local." in text


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (
            ("ng_collect_rollouts", "+input_jsonl=rows.jsonl", "+output_jsonl_fpath=x.jsonl"),
            (
                "error: override 'input_jsonl' is not a setting and nothing refers to it; did you mean "
                "'input_jsonl_fpath'?"
            ),
        ),
        (
            ("ng_prepare_data", "+output_dirpath=out"),
            (
                "error: mode: is required: train_preparation or example_validation\n"
                "hint: give a setting as +name=value, or as a line of env.yaml"
            ),
        ),
        (
            ("ng_download_dataset_from_hf", "+repo_id=x"),
            "say where to: output_dirpath for a directory, or output_fpath for a file",
        ),
    ],
)
def test_a_slip_at_a_program_with_overrides_is_one_error(
    world: World, command: tuple[str, ...], answer: str
) -> None:
    done = world.run(*command)

    assert answer in done.refused()
    assert "warning" not in done.err


@pytest.mark.parametrize("program", ["palestra", "ng_collect_rollouts"])
def test_an_output_that_is_a_folder_has_no_hint_about_the_input(world: World, program: str) -> None:
    (world.folder / "out").mkdir()
    words = ("+output_jsonl_fpath=out/", "+input_jsonl_fpath=rows.jsonl")
    command = ("eval", "mcqa", *MODEL, "--output", "out/") if program == "palestra" else words

    message = world.run(program, *command).refused()

    assert "is a folder, and should be a file that ends with .jsonl" in message
    assert "hint" not in message


GAME = """
from palestra import Environment

class Game(Environment):
    data = [{"question": "x", "target": "1"}]
    prompt = "{question}"
    tries: int = 1
    easy: bool = False
    style: str = ""

    def verify(self, answer, target):
        return target in answer
"""


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("--tries", "2"), "there is no option --tries: write --set tries=2"),
        (("--tries=2",), "there is no option --tries: write --set tries=2"),
        (("--easy", "--model", "local"), "there is no option --easy: write --set easy=VALUE"),
        (("--judge-model", "x"), "there is no option --judge-model: write --judge MODEL"),
        (("--set", "tries=2,easy=true"), "--set tries=2 --set easy=true"),
        (("--set", "tries=2", "easy=true"), "hint: --set easy=true"),
    ],
)
def test_a_setting_of_a_file_is_answered_with_set(
    world: World, words: tuple[str, ...], remedy: str
) -> None:
    world.write("game.py", GAME)

    assert remedy in world.run("palestra", "eval", "game.py", *words).refused()


def test_a_text_setting_may_hold_a_comma_and_an_equals_sign(world: World) -> None:
    world.write("game.py", GAME)

    done = world.run("palestra", "verify-env", "game.py", "--set", "style=a,tries=2")

    assert "error: g" in done.err
    assert "--set" not in done.err


@pytest.mark.parametrize("command", ["eval", "verify-env", "test"])
def test_the_name_of_a_file_without_its_suffix_is_answered_with_the_file(
    world: World, command: str
) -> None:
    world.write("c1.py", GAME)

    assert "did you mean 'c1.py'?" in world.run("palestra", command, "c1").refused()


@pytest.mark.parametrize(
    "command",
    [
        ("reverify", "run/rollouts.jsonl", "++policy_api_key=sk-secret"),
        ("eval", "keyed.py", *MODEL, "api_key=sk-secret"),
        ("eval", "keyed.py", *MODEL, "--api-key", "sk-secret"),
    ],
)
def test_no_secret_is_in_what_to_type_instead(world: World, command: tuple[str, ...]) -> None:
    keyed = 'class Keyed(Environment):\n    api_key: str = ""\n    data = [{"q": "1"}]\n'
    body = '    prompt = "{q}"\n\n    def verify(self, answer):\n        return 1.0\n'
    world.write("keyed.py", f"from palestra import Environment\n\n\n{keyed}{body}")
    write_run(world.folder / "run", [scored(0, 0, 1.0)], requested=1)

    assert "sk-secret" not in world.run("palestra", *command).refused()

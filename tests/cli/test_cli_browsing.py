"""What there is, as `list`, `show` and `runs` print it."""

import json
import os
import pty
import select
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_world import FakeEndpoint, World

from listed_runs import answered, failure, write_run
from palestra.api import KINDS
from palestra.cli.listing import list_components, list_runs
from palestra.rollouts import ShardOf
from palestra.schema import RunPaths
from palestra.settings import ListArgs, RunsArgs


def test_the_list_of_environments_names_what_each_is_like(world: World) -> None:
    out = world.run("palestra", "list").out
    [line] = [line for line in out.splitlines() if "code_gen" in line]

    assert line.split()[:2] == ["code_gen", "Competitive"]
    assert "sandbox" in line
    assert "reasoning_gym" in out


def test_a_misspelt_kind_is_refused_with_those_there_are(world: World) -> None:
    error = world.run("palestra", "list", "--kind", "envs").refused()

    assert "--kind" in error
    assert "'envs'" in error
    assert all(kind in error for kind in KINDS)


def test_a_kind_may_be_in_the_singular(world: World) -> None:
    agents = json.loads(world.run("palestra", "list", "--kind", "agent", "--json").out)

    assert {one["kind"] for one in agents} == {"agents"}


def test_a_word_that_is_a_kind_lists_that_kind(world: World) -> None:
    by_word = world.run("palestra", "list", "agents", "--json")
    by_flag = world.run("palestra", "list", "--kind", "agents", "--json")

    assert json.loads(by_word.out) == json.loads(by_flag.out)


def test_both_lists_have_the_same_components(world: World) -> None:
    ours, theirs = (
        json.loads(world.run("palestra", *words, "--json").out)
        for words in (("list", "--kind", "agents"), ("gym", "list", "agents"))
    )

    assert [one["name"] for one in ours] == [one["name"] for one in theirs]


def test_an_environment_is_shown_with_all_that_is_needed_to_run_it(world: World) -> None:
    out = world.run("palestra", "show", "example_single_tool_call").out

    assert out.startswith("example_single_tool_call: One tool")
    for text in ("# example_single_tool_call", "get_weather(city)", "[system]"):
        assert text in out
    assert out.rstrip().endswith("palestra verify-env example_single_tool_call")


def test_the_config_alone_can_be_shown(world: World) -> None:
    assert world.run("palestra", "show", "mcqa", "--config").out.startswith("mcqa:\n")


def test_a_row_alone_can_be_shown(world: World) -> None:
    out = world.run("palestra", "show", "mcqa", "--row", "2").out

    assert out.lstrip().startswith("row 2 of ")
    assert "README" not in out


def test_what_is_neither_a_run_nor_a_component_is_one_error(world: World) -> None:
    error = world.run("palestra", "show", "mcqq").refused()

    assert "no run, environment, agent, model or benchmark 'mcqq'; did you mean 'mcqa'?" in error


def test_runs_are_listed_with_their_states(world: World) -> None:
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=2, started_at=1e9)
    out = world.run("palestra", "runs").out
    [line] = [line for line in out.splitlines() if "runs/a" in line]

    assert line.split()[:2] == ["sums", "tiny"]
    assert "stopped at 50%" in line
    assert "1/2" in line


@pytest.mark.parametrize("command", ["runs", "show runs/a"])
def test_a_run_whose_scored_rows_are_gone_is_not_done(world: World, command: str) -> None:
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=1).unlink()

    done = world.run("palestra", *command.split())

    assert "stopped at 0%" in done.out
    assert "rollouts.jsonl is missing, with all rollouts that had ended (1)" in done.err


@pytest.mark.parametrize("command", ["show runs/a 0:0", "profile runs/a", "select runs/a"])
def test_lost_inputs_are_answered_with_how_they_are_made_again(world: World, command: str) -> None:
    output = write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=1)
    RunPaths(output).materialized_inputs.unlink()

    message = world.run("palestra", *command.split()).refused()

    assert "makes them again with --resume, without asking the model" in message


def test_a_run_in_shards_is_listed_with_its_own_folder(world: World) -> None:
    for index in range(2):
        shard, folder = ShardOf(index, 2, requested=2, tasks=2), world.folder / f"runs/b/{index}"
        write_run(folder, [answered(0, 1)], requested=1, shard=shard)

    [line] = [line for line in world.run("palestra", "runs").out.splitlines() if "sums" in line]
    assert line.split()[-1] == "runs/b"


def test_no_runs_are_no_error(world: World) -> None:
    done = world.run("palestra", "runs")

    assert (done.code, done.out) == (0, "no runs in runs\n")
    assert "palestra eval NAME" in done.err


def test_a_run_is_shown_with_its_failures(world: World) -> None:
    failures = [failure(1, "no number")]
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=2, failures=failures)
    done = world.run("palestra", "show", "runs/a")

    assert done.out.startswith("sums with tiny\n")
    assert "no number" in done.out
    assert "palestra show runs/a 1:0" in done.err


@pytest.mark.parametrize(
    "command",
    [
        "show runs/a",
        "show runs/a --json",
        "show runs/a 1:0",
        "show runs/a 1:0 --json",
        "view runs/a --text",
        "view runs/a --json",
        "view runs/a 1:0 --text",
    ],
)
def test_secrets_in_failures_are_masked(world: World, command: str) -> None:
    failures = [failure(1, "refused sk-abcdefghijklmnop1234")]
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=2, failures=failures)
    done = world.run("palestra", *command.split())

    assert "refused ****" in done.out
    assert "sk-abcdef" not in done.out + done.err


def test_the_most_frequent_messages_of_a_class_are_shown(world: World) -> None:
    messages = [f"message {name}" for n, name in enumerate("abcdefg") for _ in range(8 - n)]
    failures = [failure(task, message) for task, message in enumerate(messages)]
    run = world.folder / "runs" / "a"
    write_run(run, [], requested=len(failures), failures=failures)
    out = world.run("palestra", "show", "runs/a").out

    rows = [line.split(maxsplit=3) for line in out.splitlines() if "verifier_error " in line][-6:]
    assert [row[0] for row in rows] == ["8", "7", "6", "5", "4", "5"]
    assert rows[-1][3].strip() == "and 2 other messages"


def test_a_failed_rollout_is_shown_with_the_line_that_raised(world: World) -> None:
    failures = [failure(0, "no number", traceback="sums.py:3 in verify")]
    write_run(world.folder / "runs" / "a", [], requested=1, failures=failures)

    assert "at: sums.py:3 in verify" in world.run("palestra", "show", "runs/a", "0:0").out


def test_a_run_is_found_by_its_name_alone(world: World) -> None:
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=1)

    assert "reward 1" in world.run("palestra", "show", "a", "0:0").out


def test_a_rollout_is_shown_with_roles_calls_and_components(world: World) -> None:
    row = answered(0, 1, reward_components={"right": 1.0})
    write_run(world.folder / "runs" / "a", [row], requested=1)
    out = world.run("palestra", "show", "runs/a", "0:0").out

    for text in ("[user]", "[call add]", '{"a": 2}', "[result]", "[assistant]", "right: 1.0"):
        assert text in out


def test_a_failed_rollout_is_shown_with_its_remedy(world: World) -> None:
    write_run(world.folder / "runs" / "a", [], requested=1, failures=[failure(0, "no number")])
    out = world.run("palestra", "show", "runs/a", "0:0").out

    for text in ("verifier_error", "message: no number", "sums: 500", "what helps"):
        assert text in out


def test_a_rollout_is_one_json_document(world: World) -> None:
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=1)

    assert json.loads(world.run("palestra", "show", "runs/a", "0:0", "--json").out)["reward"] == 1


@pytest.mark.parametrize("key", ["x:y", "1:", ":1"])
def test_what_is_no_rollout_is_refused(world: World, key: str) -> None:
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=1)

    assert "such as 17:3" in world.run("palestra", "show", "runs/a", key).refused()


@pytest.mark.parametrize(
    ("key", "hint"), [("1-0", "such as 1:0"), ("reward<1", "run.rollouts(…) in Python")]
)
def test_a_rollout_in_another_form_is_answered_with_its_own_form(
    world: World, key: str, hint: str
) -> None:
    write_run(world.folder / "runs" / "a", [answered(0, 1), answered(1, 1)], requested=2)

    assert hint in world.run("palestra", "show", "runs/a", key).refused()


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (
            "palestra eval sums --overwrite",
            "palestra eval sums --output runs/a/rollouts.jsonl --resume",
        ),
        (
            "palestra collect -o runs/a/rollouts.jsonl +policy_api_key=****",
            "with --resume, goes on",
        ),
        (
            "ng_collect_rollouts +output_jsonl_fpath=x.jsonl",
            "with +resume_from_cache=true, goes on",
        ),
    ],
)
def test_a_run_that_stopped_is_shown_with_how_it_goes_on(
    world: World, command: str, hint: str
) -> None:
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=2, command=command)

    assert hint in world.run("palestra", "show", "runs/a").err


def test_flags_of_components_are_refused_for_runs(world: World) -> None:
    write_run(world.folder / "runs" / "a", [answered(0, 1)], requested=1)

    assert (
        "--row is for a component"
        in world.run("palestra", "show", "runs/a", "--row", "1").refused()
    )


def test_a_model_cannot_colour_the_terminal(world: World) -> None:
    row = answered(0, 1, text="\x1b[31mred\x1b]0;title\x07")
    write_run(world.folder / "runs" / "a", [row], requested=1)

    assert "\x1b" not in world.run("palestra", "show", "runs/a", "0:0").out


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "show_table", [lambda: list_components(ListArgs()), lambda: list_runs(RunsArgs())]
)
def test_tables_fit_the_terminal(
    show_table: Callable[[], int],
    width: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", str(width)), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "sums-20260301-120000", [answered(0, 1)], requested=1)
    show_table()

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert "\x1b" not in "".join(lines)


@pytest.mark.slow
def test_a_long_text_opens_in_the_pager_of_a_terminal(world: World) -> None:
    long_text = "\n".join(f"line {number}" for number in range(200))
    write_run(world.folder / "runs" / "a", [answered(0, 1, text=long_text)], requested=1)
    world.environment["PAGER"] = "tail -n 1"
    ours, theirs = pty.openpty()
    process = world.start_on(theirs, "palestra", "show", "runs/a", "0:0")
    os.close(theirs)
    text = b""
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    while poll.poll(50_000):
        try:
            block = os.read(ours, 65536)
        except OSError:
            break
        if not block:
            break
        text += block
    os.close(ours)

    assert process.wait(timeout=20) == 0
    assert text.decode().split() == ["line", "199"]


RAISING = """from palestra import environment

@environment(data=[{"q": "a"}], prompt="{q}")
def verify(answer):
    raise ValueError("not today")
"""


@pytest.mark.slow
def test_a_run_with_failures_says_how_to_read_one(world: World, fake: FakeEndpoint) -> None:
    world.write("raising.py", RAISING)
    words = ("raising.py", "--model", "openai:tiny", *fake.policy, "--output", "out/r.jsonl")
    done = world.run("palestra", "eval", *words)

    assert "palestra show out/r.jsonl 0:0 shows the first" in done.err
    assert "not today" in world.run("palestra", "show", "out/r.jsonl", "0:0").out

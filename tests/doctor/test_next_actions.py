"""What `doctor`, `diagnose`, `show` and `report` say to do can be typed: nothing that is known is left
open.
"""

import html
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doctor_world import KEY, Ward, task

import palestra
from palestra.causes import SignatureTable
from palestra.cli.collecting import collect
from palestra.cli.console import say
from palestra.cli.diagnosing import diagnose
from palestra.cli.main import app
from palestra.cli.showing import show
from palestra.errors import split_cause
from palestra.schema import RunPaths
from palestra.settings import DiagnoseArgs, ShowArgs
from palestra.testing import scripted_endpoint

pytestmark = pytest.mark.slow  # each reads several runs in every way

Row = dict[str, Any]
OUTPUT = Path("out/run.jsonl")
JUDGED = """
from palestra import Environment

class Judged(Environment):
    data = [{"question": "2+2?", "a": "4"}]
    prompt = "{question}"

    async def verify(self, answer, a):
        return float(await self.judge.same(a, answer))
"""
OPEN = re.compile(
    r"\b(?:RUN|FILE|MODEL|PATH|NAME|PACKAGE|PACKAGES|JOB(?! \d)|ENVIRONMENT|LISTED|TASK:ROLLOUT)\b"
    r"|<(?:stem|name)>"
)
"""What stands for a value in the table, in the hints and in the commands that they quote."""
UNKNOWN = re.compile(
    r"PROVIDER:NAME@URL|policy_model_name=NAME|resources_servers/NAME/configs/NAME\.yaml"
    r"|name config files: --config FILE|name a file with --input FILE"
)
"""Values that nobody knows but the user."""


def judged_run() -> None:
    """A run of one rollout, whose judge gave no verdict."""
    Path("judged.py").write_text(JUDGED)
    with scripted_endpoint("4") as model, scripted_endpoint("blah") as judge:
        palestra.evaluate(
            "judged.py",
            model=f"vllm:{model.url}",
            judge=f"vllm:scripted@{judge.url}",
            output=OUTPUT,
            max_attempts=1,
            progress=False,
        )


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def failing_as_the_table_knows(**fields: Any) -> None:
    """A run of one rollout for each example of the table, which failed with its message."""
    judged_run()
    paths = RunPaths(OUTPUT)
    [requested], [failure] = read_rows(paths.materialized_inputs), read_rows(paths.failures)
    table = SignatureTable.load()
    examples = [example for entry in table.signatures for example in entry.examples]
    causes = [split_cause(example) for example in examples]
    write_rows(
        paths.materialized_inputs,
        [{**requested, "_ng_task_index": at} for at in range(len(examples))],
    )
    failures = []
    for at, (message, cause) in enumerate(causes):
        own = {"message": message, "cause": cause or "", "hops": [], "_ng_task_index": at}
        failures.append({**failure, **own, **fields})
    write_rows(paths.failures, failures)
    change_manifest(requested=len(examples), tasks=len(examples))


def change_manifest(**fields: Any) -> None:
    path = RunPaths(OUTPUT).manifest
    manifest = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in manifest.items() if value != ""}))


def without_kept_answers() -> None:
    failing_as_the_table_knows(response=None, reverify=None)


def of_an_older_version() -> None:
    """A run whose rows and manifest record no command, as those of the first versions."""
    failing_as_the_table_knows(reverify=None)
    change_manifest(
        reverify="", command="palestra eval judged.py --judge vllm:scripted@http://h/v1"
    )


def with_the_command_in_hints() -> None:
    hint = (
        "the model's answer is kept: palestra reverify --rollouts a.jsonl --with-failures --output "
    )
    failing_as_the_table_knows(reverify=None, hint=f"{hint}b.jsonl verifies it without the model")


def of_a_live_session() -> None:
    command = {"command": "palestra reverify --rollouts a.jsonl --force", "needs_session": True}
    failing_as_the_table_knows(reverify=command)


def stopped() -> None:
    judged_run()
    paths = RunPaths(OUTPUT)
    paths.failures.unlink()
    change_manifest(ended={})


def without_inputs() -> None:
    judged_run()
    RunPaths(OUTPUT).materialized_inputs.unlink()


def of_edited_inputs() -> None:
    judged_run()
    paths = RunPaths(OUTPUT)
    [requested] = read_rows(paths.materialized_inputs)
    asked = {"responses_create_params": {"input": [{"role": "user", "content": "else"}]}}
    write_rows(OUTPUT, [{**requested, "reward": 1.0, "response": {"output": []}}])
    write_rows(paths.materialized_inputs, [{**requested, **asked}])


def of_changed_rows() -> None:
    judged_run()
    write_rows(Path("out/run_tasks.jsonl"), [{"question": "else"}])


def torn() -> None:
    judged_run()
    OUTPUT.write_text('{"_ng_task_index": 0, "_ng_ro')


def of_broken_manifest() -> None:
    judged_run()
    RunPaths(OUTPUT).manifest.write_text("{")


KINDS = (
    judged_run,
    failing_as_the_table_knows,
    without_kept_answers,
    of_an_older_version,
    with_the_command_in_hints,
    of_a_live_session,
    stopped,
    without_inputs,
    of_edited_inputs,
    of_changed_rows,
    torn,
    of_broken_manifest,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def left_open(text: str) -> list[str]:
    """The lines that leave open what is known."""
    lines = UNKNOWN.sub("", text).splitlines()
    return [line for line in lines if OPEN.search(line)]


def printed(capsys: pytest.CaptureFixture[str], command: Callable[[], object]) -> str:
    capsys.readouterr()
    try:
        command()
    except palestra.errors.PalestraError as error:
        return f"{error.message}\n{error.hint}"
    captured = capsys.readouterr()
    return captured.out + captured.err


def report_text() -> str:
    """What a reader of the report sees, with the data of its script."""
    page = palestra.open_run(OUTPUT).report().read_text()
    page = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "\n", page)).replace("\\n", "\n")


@pytest.mark.parametrize("make", KINDS)
def test_no_command_leaves_open_what_the_run_says(
    make: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    make()
    run = str(OUTPUT)
    rows = RunPaths(OUTPUT).failures
    keys = [f"{row['_ng_task_index']}:0" for row in read_rows(rows)] if rows.exists() else ["0:0"]

    texts = {
        "diagnose": printed(capsys, lambda: diagnose(DiagnoseArgs(run=run))),
        "show": printed(capsys, lambda: show(ShowArgs(subject=run))),
        "report": printed(capsys, lambda: say(report_text())),
        **{
            key: printed(capsys, lambda key=key: show(ShowArgs(subject=run, rollout=key)))
            for key in keys
        },
    }
    assert {name: left_open(text) for name, text in texts.items() if left_open(text)} == {}


@pytest.fixture
def stale(ward: Ward) -> str:
    """The input of a run that failed in part; it was changed since."""
    name = ward.rows("rows.jsonl", [task("a"), task("b")])
    ward.endpoint.says = "no verdict"
    asked = ward.asked(input_jsonl_fpath=name, max_attempts=1)
    assert collect(ward.arguments(), ng=False, extra=asked) == 1
    return ward.rows("rows.jsonl", [task("a"), task("c")])


def test_the_doctor_names_the_stale_run_and_a_new_file(ward: Ward, stale: str) -> None:
    examined = ward.examine(input_jsonl_fpath=stale, resume_from_cache=True)

    action = examined.finding("cache.stale-inputs")["next_action"]
    select = "palestra select out/rollouts.jsonl --failed --out out/rollouts_again.jsonl"
    assert f"`{select}`" in action
    assert left_open(action) == []


def test_what_the_doctor_says_of_a_stale_run_can_be_pasted(
    ward: Ward, stale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    swap = "++equivalence_llm_judge.resources_servers.equivalence_llm_judge.check_twice_swap=false"
    examined = ward.examine(swap, input_jsonl_fpath=stale, resume_from_cache=True)
    action = examined.finding("cache.stale-inputs")["next_action"]
    select = action.partition("`palestra select")[2].partition("`")[0]
    reverify = action.partition("palestra reverify")[2].partition("` verifies as")[0]
    ward.endpoint.says = "[[A!=B]]"
    with Path("env.yaml").open("a") as settings:
        settings.write(f"policy_api_key: {KEY}\n")  # no command shows a secret

    for command in (f"select {select}", f"reverify {reverify}"):
        with pytest.raises(SystemExit) as ended:
            app(shlex.split(command))
        assert ended.value.code == 0, capsys.readouterr().err

    assert len(read_rows(Path("out/rollouts_again.jsonl"))) == 2
    assert len(read_rows(Path("out/rollouts_reverified.jsonl"))) == 2


def test_the_doctor_names_the_file_and_the_line_that_is_no_json(ward: Ward) -> None:
    name = ward.rows("rows.jsonl", [task(), '{"torn'])

    found = ward.examine(input_jsonl_fpath=name).finding("data.not-json")

    [evidence] = found["evidence"]
    assert (Path(evidence["source"]).name, evidence["line"]) == (name, 2)

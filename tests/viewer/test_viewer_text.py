"""`palestra view` without a browser: text, JSON, one HTML file; and forgetting an index."""

import contextlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from listed_runs import answered, failure, write_run
from packers import zstd
from palestra.cli.viewing import view
from palestra.errors import ConfigError, InputDataError
from palestra.records import list_runs
from palestra.rollouts import outputs_of
from palestra.schema import RunPaths
from palestra.settings import ViewArgs
from palestra.viewer.discovery import RunPlace
from palestra.viewer.grouping import FIRST_ROWS, MOST_ROWS, check_group_field

SECRET = "a-secret-of-the-tests"


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path / "run-dir"))
    monkeypatch.setenv("MY_API_KEY", SECRET)


@pytest.fixture
def run(tmp_path: Path) -> str:
    rows = [answered(0, 1.0), answered(1, 0.0, f"It is {SECRET}. </pre><script>alert(1)</script>")]
    return str(write_run(tmp_path / "a", rows, requested=3, failures=[failure(2, "no number")]))


def args(*paths: str, **options: Any) -> ViewArgs:
    return ViewArgs.model_validate({"paths": paths, **options})


def test_json_has_the_rollouts_that_match(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert view(args(run, as_json=True, filter="reward<1 or -outcome:scored")) == 0

    rows = json.loads(capsys.readouterr().out)
    assert [(row["task"], row["outcome"]) for row in rows] == [(1, "scored"), (2, "verifier_error")]


@pytest.mark.parametrize("options", [{"as_text": True}, {"as_json": True}, {"no_browser": True}])
def test_grouping_by_a_field_that_is_not_there_names_those_that_are(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    rows = [answered(0, 1.0, topic="sums", model_family="small")]
    run = str(write_run(tmp_path / "a", rows, requested=1))
    with pytest.raises(ConfigError) as caught:
        view(args(run, group_by="topc", **options))

    assert "did you mean 'topic'?" in caught.value.message
    assert caught.value.hint.startswith("fields with a text: topic, ")
    assert "model_family" in caught.value.hint


@pytest.mark.parametrize(("name", "is_there"), [("subject", True), ("subjct", False)])
def test_a_field_of_late_rows_is_grouped_by_and_one_of_no_row_is_refused_after_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, *, is_there: bool
) -> None:
    early = [answered(task, 1.0) for task in range(FIRST_ROWS)]
    late = answered(FIRST_ROWS, 1.0, subject="algebra")
    run = write_run(tmp_path / "a", [*early, late], requested=FIRST_ROWS + 1)
    check_group_field([RunPlace.of([run])], name)  # the server starts
    asked = args(str(run), group_by=name, as_json=True, filter="family:algebra")

    with contextlib.nullcontext() if is_there else pytest.raises(ConfigError):
        view(asked)
    assert len(json.loads(capsys.readouterr().out or "[]")) == is_there


def test_a_run_that_cannot_be_read_is_no_reason_to_refuse_a_field(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, [answered(0, 1.0)], requested=1) for name in ("a", "b")]
    runs[1].write_bytes(b"\x1f\x8bno gzip")

    check_group_field([RunPlace.of([run]) for run in runs], "topic")


def test_of_many_runs_a_sample_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [answered(n, 1.0) for n in range(10)], requested=10)
    few, many = [RunPlace.of([run])], [RunPlace.of([run])] * MOST_ROWS

    with pytest.raises(ConfigError):
        check_group_field(few, "topic")
    check_group_field(many, "topic")


def test_a_nested_field_is_grouped_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [answered(0, 1.0, meta={"level": "hard"})]
    run = str(write_run(tmp_path / "a", rows, requested=1))

    assert view(args(run, group_by="meta.level", as_json=True, filter="family:hard")) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_words_of_transcripts_are_read_too(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    view(args(run, as_json=True, filter="text:alert"))

    assert [row["task"] for row in json.loads(capsys.readouterr().out)] == [1]


def test_a_query_about_tasks_lists_tasks(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    view(args(run, as_json=True, filter="pass_rate<1"))
    tasks = json.loads(capsys.readouterr().out)
    view(args(run, as_text=True, filter="pass_rate<1"))

    assert [(task["task"], task["mean"]) for task in tasks] == [(1, 0.0)]
    assert "1 of 3 tasks" in capsys.readouterr().out


def test_a_filter_is_about_one_run(run: str, tmp_path: Path) -> None:
    write_run(tmp_path / "b", [answered(0, 1.0)], requested=1)
    with pytest.raises(ConfigError, match="--filter is about one run") as raised:
        view(args(str(tmp_path), as_json=True, filter="reward<1"))

    assert "b/rollouts.jsonl" in raised.value.hint


def test_a_folder_stands_for_the_run_that_was_collected_in_it(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(run).with_name("rollouts_reverified.jsonl")
    copy.write_text(Path(run).read_text())
    copy.with_name("rollouts_reverified_materialized_inputs.jsonl").touch()

    view(args(str(copy.parent), as_json=True, filter="-outcome:scored"))

    assert [row["task"] for row in json.loads(capsys.readouterr().out)] == [2]


def test_reverified_runs_are_in_every_list_of_runs(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collected = [Path(run), write_run(tmp_path / "b", [answered(0, 1.0)], requested=1)]
    again = [Path(run).with_name(f"{name}.jsonl") for name in ("rollouts_reverified", "mine")]
    for output in again:
        output.write_text(Path(run).read_text())
        inputs = RunPaths(Path(run)).materialized_inputs.read_text()
        RunPaths(output).materialized_inputs.write_text(inputs)
        output.with_name(f"{output.stem}_reverify.json").write_text("{}")

    view(args(str(tmp_path), as_json=True))
    in_view = {Path(entry["path"]) for entry in json.loads(capsys.readouterr().out)}
    in_runs = {entry.path for entry in list_runs(tmp_path)}

    assert in_view == in_runs == {*collected, *again}
    assert outputs_of(collected[0].parent) == collected[:1]
    with pytest.raises(InputDataError, match="the files of 4 runs"):
        outputs_of(tmp_path)


def test_the_first_of_several_arguments_does_not_stand_for_all(run: str, tmp_path: Path) -> None:
    other = write_run(tmp_path / "b", [answered(0, 1.0)], requested=1)
    folders = [str(Path(path).parent) for path in (run, other)]
    with pytest.raises(ConfigError, match="--export is about one run") as raised:
        view(args(*folders, export=tmp_path / "out.html"))

    assert "b/rollouts.jsonl" in raised.value.hint


def test_text_lists_rollouts_with_their_errors(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view(args(run, as_text=True))

    printed = capsys.readouterr().out
    assert "no number" in printed
    assert "3 of 3 rollouts" in printed


def test_one_rollout_is_shown_whole(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    view(args(run, "0:0", as_text=True))

    assert "It is 4." in capsys.readouterr().out


def test_a_folder_of_runs_lists_them(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "b", [answered(0, 1.0)], requested=1)
    view(args(str(tmp_path), as_json=True))

    runs = json.loads(capsys.readouterr().out)
    assert sorted((r["scored"], r["requested"]) for r in runs) == [(1, 1), (2, 3)]


def test_the_exported_file_holds_what_matches_without_secrets(run: str, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    view(args(run, export=path, filter="task:1"))

    text = path.read_text()
    assert re.findall(r"<h2>(\d+:\d+)", text) == ["1:0"]
    assert SECRET not in text
    assert "<script" not in text
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text


def test_the_exported_file_says_why_a_rollout_failed(run: str, tmp_path: Path) -> None:
    view(args(run, export=tmp_path / "out.html", filter="class:verifier_error"))

    page = (tmp_path / "out.html").read_text()
    for text in ("verifier_error, layer verifier/runtime", "no number", "hint: return a number"):
        assert text in page


def test_the_exported_file_has_a_limit(tmp_path: Path) -> None:
    rows = [answered(task, 1.0, "x" * 30_000) for task in range(600)]
    run, path = str(write_run(tmp_path / "a", rows, requested=600)), tmp_path / "out.html"
    view(args(run, export=path))

    assert 9_000_000 < path.stat().st_size <= 10_000_000
    assert "They were left out" in path.read_text()


def test_forgetting_removes_the_index_alone(run: str, tmp_path: Path) -> None:
    before = sorted(path.name for path in Path(run).parent.iterdir())
    view(args(run, as_json=True))
    assert list((tmp_path / "cache" / "view").iterdir())

    view(args(run, forget=True))

    assert not [path for path in (tmp_path / "cache" / "view").rglob("*") if path.is_file()]
    assert sorted(path.name for path in Path(run).parent.iterdir()) == before


def test_a_wrong_query_is_an_error_before_anything_is_read(run: str) -> None:
    with pytest.raises(ConfigError, match="character"):
        view(args(run, as_text=True, filter="(reward<1"))


def test_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputDataError):
        view(args(str(tmp_path), as_text=True))


def test_an_export_of_nothing_is_an_error(run: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rollout matches"):
        view(args(run, export=tmp_path / "out.html", filter="task:99"))


def test_an_export_makes_its_folder(run: str, tmp_path: Path) -> None:
    view(args(run, export=tmp_path / "new" / "out.html"))

    assert (tmp_path / "new" / "out.html").is_file()


def test_an_export_that_cannot_be_written_is_an_error(run: str) -> None:
    with pytest.raises(ConfigError, match="--export: cannot write"):
        view(args(run, export=Path(run) / "out.html"))


def test_failed_is_every_outcome_without_a_reward(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view(args(run, as_json=True, filter="outcome:failed"))
    failed = json.loads(capsys.readouterr().out)
    view(args(run, as_json=True, filter="-has:reward"))

    assert failed == json.loads(capsys.readouterr().out) != []


def test_a_value_that_no_row_has_is_named_with_those_that_are_there(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view(args(run, as_text=True, filter="outcome:faild"))

    printed = capsys.readouterr().err
    assert "outcome:faild" in printed
    assert "scored (2), verifier_error (1)" in printed


def test_an_export_of_nothing_names_the_values_that_are_there(run: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no rollout matches.*scored \(2\)"):
        view(args(run, export=tmp_path / "out.html", filter="outcome:faild"))


def test_a_field_that_does_not_exist_is_answered_with_all_fields(run: str) -> None:
    with pytest.raises(ConfigError) as raised:
        view(args(run, as_text=True, filter="foo:1"))

    assert {"outcome", "reward", "tokens.out"} <= set(
        raised.value.hint.removeprefix("the fields: ").split(", ")
    )


def test_a_missing_extra_is_named_and_not_the_cache(
    run: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("Python reads zstd itself")
    path = Path(run)
    path.write_bytes(zstd.compress(path.read_bytes()))
    monkeypatch.setitem(sys.modules, "backports", None)

    view(args(run, as_text=True))

    printed = capsys.readouterr().err
    assert "palestra[zstd]" in printed
    assert "cache" not in printed

"""`palestra view` without a browser: text, JSON, one HTML file; and forgetting an index."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from listed_runs import answered, failure, write_run
from packers import zstd
from palestra.cli.viewing import view
from palestra.errors import ConfigError, InputDataError
from palestra.settings import ViewArgs

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
    with pytest.raises(ConfigError, match="--filter is about one run"):
        view(args(str(tmp_path), as_json=True, filter="reward<1"))


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
    assert "1:0 scored" in text
    assert "0:0" not in text
    assert SECRET not in text
    assert "<script" not in text
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text


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


def test_a_value_that_no_row_has_is_named_with_those_that_are_there(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view(args(run, as_text=True, filter="outcome:failed"))

    printed = capsys.readouterr().err
    assert "outcome:failed" in printed
    assert "scored (2), verifier_error (1)" in printed


def test_an_export_of_nothing_names_the_values_that_are_there(run: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no rollout matches.*scored \(2\)"):
        view(args(run, export=tmp_path / "out.html", filter="outcome:failed"))


def test_a_field_that_does_not_exist_is_answered_with_all_fields(run: str) -> None:
    with pytest.raises(ConfigError) as raised:
        view(args(run, as_text=True, filter="foo:1"))

    assert {"outcome", "reward", "tokens.out"} <= set(
        raised.value.hint.removeprefix("the fields: ").split(", ")
    )


def test_a_field_to_group_by_that_no_row_has_is_named(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view(args(run, as_text=True, group_by="famly"))

    assert "'famly' to group by" in capsys.readouterr().err


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

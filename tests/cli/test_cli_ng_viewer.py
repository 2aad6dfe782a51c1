"""`ng_viewer`, which shows a run as `palestra view` does."""

import sys
from pathlib import Path

import pytest

from palestra.cli import viewing
from palestra.cli.ng import viewer
from palestra.settings import ViewArgs


def called(monkeypatch: pytest.MonkeyPatch, *overrides: str) -> int | str | None:
    """The exit code of the program."""
    monkeypatch.setattr(sys, "argv", ["ng_viewer", *overrides])
    with pytest.raises(SystemExit) as ended:
        viewer()
    return ended.value.code


def test_the_settings_are_those_of_view(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    views: list[ViewArgs] = []

    def view(args: ViewArgs) -> int:
        views.append(args)
        return 0

    monkeypatch.setattr(viewing, "view", view)

    assert called(monkeypatch, "+jsonl_fpath=a.jsonl", "+server_port=0") == 0
    assert views == [ViewArgs(paths=("a.jsonl",), host="127.0.0.1", port=0, no_browser=True)]


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ([], "error: jsonl_fpath: is required\nhint: +jsonl_fpath="),
        (["+jsonl_fpath=nope.jsonl"], "error: there is no run nope.jsonl"),
        (["+jsonl_fpath=a.jsonl", "+server_prot=1"], "did you mean 'server_port'?"),
    ],
)
def test_wrong_settings_are_one_error(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    overrides: list[str],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert called(monkeypatch, *overrides) == 2
    assert reason in capsys.readouterr().err

"""The views while a collection runs: plain lines, and which view fits where."""

import asyncio
import io
import sys

import pytest

from palestra.cli.progress import choose_kind, live_view, plain_pause_s
from palestra.engine import Accounting
from palestra.rollouts import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def show(kind: str, seconds: float) -> None:
    async def main() -> None:
        async with live_view(kind, Progress(Accounting(3))):
            await asyncio.sleep(seconds)

    asyncio.run(main())


def test_the_first_plain_line_comes_after_two_seconds_and_later_ones_rarely() -> None:
    moments = [0.0]
    while moments[-1] < 700:
        moments.append(moments[-1] + plain_pause_s(moments[-1]))

    assert moments[1:4] == [2.0, 7.0, 12.0]
    assert moments[-1] - moments[-2] == 30.0


def test_plain_lines_end_with_the_last_state(capsys: pytest.CaptureFixture[str]) -> None:
    show("plain", 0.0)

    assert capsys.readouterr().err == "0/3 done, 0 in flight, 0 failed, 0.0/s (0.0/s overall)\n"


def test_no_progress_means_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    show("none", 0.0)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("asked", "term", "kind"),
    [(None, "xterm", "rich"), (None, "dumb", "plain"), ("none", "xterm", "none")],
)
def test_a_terminal_gets_frames_when_it_can_show_them(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, term: str, kind: str
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", term)

    assert choose_kind(asked) == kind


def test_frames_asked_for_without_a_terminal_are_lines_and_it_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert choose_kind("rich") == "plain"
    assert "needs a terminal" in capsys.readouterr().err

"""Frames and lines on a pseudo-terminal."""

import io
import os
import sys
import threading
from collections.abc import Iterator

import pytest
from rich.text import Text
from tiny_terminal import Pty

from palestra.cli.terminal import Screen, breaks_lines, is_a_screen


@pytest.fixture
def pty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pty]:
    monkeypatch.setenv("TERM", "xterm-256color")
    made = Pty(40, 10)
    yield made
    made.close()


@pytest.fixture
def screen(pty: Pty) -> Iterator[Screen]:
    with os.fdopen(os.dup(pty.slave), "w") as stream, Screen(stream) as made:
        yield made


def lines(*texts: str):
    return lambda _width, _height: [Text(text) for text in texts]


def test_a_frame_takes_the_place_of_the_last_one(pty: Pty, screen: Screen) -> None:
    screen.paint(lines("first line", "second line", "third"))
    pty.shows("first line\nsecond line\nthird")
    screen.paint(lines("shorter", "now"))
    pty.until(lambda: pty.screen.text == "shorter\nnow")


def test_lines_appear_above_the_frame(pty: Pty, screen: Screen) -> None:
    screen.paint(lines("the", "frame"))
    screen.print("a line\nand another")
    pty.until(lambda: pty.screen.text == "a line\nand another\nthe\nframe")
    screen.print("a third")
    pty.until(lambda: pty.screen.text == "a line\nand another\na third\nthe\nframe")


def test_the_last_frame_stays_and_the_cursor_is_below_it(pty: Pty) -> None:
    with os.fdopen(os.dup(pty.slave), "w") as stream:
        with Screen(stream) as screen:
            screen.paint(lines("the", "end"))
        stream.write("$ ")
        stream.flush()
        pty.until(lambda: pty.screen.text == "the\nend\n$")


def test_what_anybody_prints_appears_above_the_frame(
    pty: Pty, monkeypatch: pytest.MonkeyPatch
) -> None:
    with os.fdopen(os.dup(pty.slave), "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "stdout", stream)
        with Screen(stream) as screen, screen.taking_prints():
            screen.paint(lines("frame"))
            sys.stderr.write("half a")
            sys.stdout.write(" word \x1b[2J of a verifier\n")
            sys.stderr.write(" line\n")
            sys.stdout.write("unfinished")
    pty.until(lambda: pty.screen.text.rstrip().endswith("unfinished\nframe"))
    assert pty.screen.text.startswith(" word \\x1b[2J of a verifier\nhalf a line\n")


def test_output_that_goes_elsewhere_is_left_alone(
    pty: Pty, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = io.StringIO()
    monkeypatch.setattr(sys, "stdout", elsewhere)
    stream = os.fdopen(os.dup(pty.slave), "w")
    with stream, Screen(stream) as screen, screen.taking_prints():
        sys.stdout.write("a row of a table\n")
    assert elsewhere.getvalue() == "a row of a table\n"


def test_a_frame_is_made_for_the_size_of_the_moment(pty: Pty, screen: Screen) -> None:
    def ruler(width: int, height: int) -> list[Text]:
        return [Text(f"{width} x {height}")]

    screen.paint(ruler)
    pty.shows("39 x 9")
    pty.resize(100, 30)
    screen.paint(ruler)
    pty.shows("99 x 29")
    pty.resize(20, 5)
    screen.print("a line comes first")
    pty.shows("19 x 4")


@pytest.mark.parametrize(
    ("environment", "breaks"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "screen-256color"}, False),
        ({"TERM": "screen-256color", "TMUX": "/tmp/tmux"}, True),
        ({"TERM": "linux"}, False),
    ],
)
def test_some_terminals_cut_lines_off_instead(environment: dict[str, str], breaks: bool) -> None:
    assert breaks_lines(environment) is breaks


def test_on_a_terminal_that_became_narrower_the_rows_of_broken_lines_go_too(
    pty: Pty, screen: Screen
) -> None:
    screen.print("above")
    screen.paint(lines("x" * 30, "y" * 30))
    pty.until(lambda: pty.screen.text.endswith("y" * 30))
    pty.resize(20, 10)
    pty.screen.lines = ["above", "x" * 20, "x" * 10, "y" * 20, "y" * 10]  # as a terminal does it
    pty.screen.move_to(row=4, column=10)
    screen.paint(lines("narrow"))
    pty.until(lambda: pty.screen.text == "above\nnarrow")


def test_after_others_have_written_the_frame_starts_afresh(pty: Pty, screen: Screen) -> None:
    screen.paint(lines("one", "two"))
    pty.shows("one\ntwo")
    os.write(pty.slave, b"\r\n[1]+ Stopped\r\n$ fg\r\n")
    screen.start_afresh()
    screen.paint(lines("three"))
    pty.until(lambda: pty.screen.text == "one\ntwo\n[1]+ Stopped\n$ fg\nthree")


def test_a_terminal_that_takes_nothing_holds_nobody_up(pty: Pty, screen: Screen) -> None:
    painted = threading.Event()

    def work() -> None:
        for _ in range(5000):
            screen.paint(lines("x" * 39))
            screen.print("y" * 200)
        painted.set()

    threading.Thread(target=work, daemon=True).start()  # nobody reads the other end

    assert painted.wait(10)
    pty.until(lambda: pty.screen.text.count("y" * 200) == 5000)


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_not_every_terminal_can_show_frames(
    pty: Pty, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    with os.fdopen(os.dup(pty.slave), "w") as stream:
        assert not is_a_screen(stream)

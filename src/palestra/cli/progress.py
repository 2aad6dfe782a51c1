"""The live view of a collection: a frame on a terminal, else a line now and then."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from palestra.cli.console import notice
from palestra.rollouts import Progress

if TYPE_CHECKING:
    from palestra.cli.snapshot import RateMeter
    from palestra.cli.terminal import Screen

FRAME_EVERY_S = 0.5
FIRST_LINE_S = 2.0
"""The first plain line appears after this time, in seconds."""


def choose_kind(kind: str | None) -> str:
    """Return `kind` (`rich`, `plain` or `none`), or the kind that suits the output."""
    from palestra.cli.terminal import is_a_screen

    if kind == "rich" and not is_a_screen(sys.stderr):
        notice("--progress rich needs a terminal: showing plain lines")
        return "plain"
    return kind or ("rich" if is_a_screen(sys.stderr) else "plain")


def plain_pause_s(elapsed_s: float) -> float:
    """Return the seconds between two plain lines; they grow with the length of the run."""
    if elapsed_s < FIRST_LINE_S:
        return FIRST_LINE_S
    if elapsed_s < 60:
        return 5.0
    return 10.0 if elapsed_s < 600 else 30.0


@contextlib.asynccontextmanager
async def live_view(kind: str, progress: Progress) -> AsyncIterator[None]:
    """Show `progress` while the body runs, and the final state afterwards."""
    if kind == "none":
        yield
        return
    from palestra.cli.snapshot import RateMeter

    view = _frames if kind == "rich" else _lines
    async with view(RateMeter(progress)):
        yield


@contextlib.asynccontextmanager
async def _lines(meter: "RateMeter") -> AsyncIterator[None]:
    from palestra.cli.frames import plain_line

    done_count = -1

    async def show() -> None:
        nonlocal done_count
        elapsed = 0.0
        while True:
            await asyncio.sleep(plain_pause_s(elapsed))
            now = meter.read()
            elapsed, done_count = now.elapsed_s, now.done
            notice(plain_line(now))

    try:
        async with _running(show):
            yield
    finally:
        end = meter.read()
        if end.in_flight or end.done != done_count:
            notice(plain_line(end))


@contextlib.asynccontextmanager
async def _frames(meter: "RateMeter") -> AsyncIterator[None]:
    from palestra.cli.frames import ASCII, UNICODE, frame, summary
    from palestra.cli.terminal import Screen

    with Screen(sys.stderr) as screen, screen.taking_prints(), _continued(screen):
        glyphs = UNICODE if screen.has_unicode else ASCII

        async def show() -> None:
            while True:
                screen.paint(partial(frame, meter.read(), glyphs=glyphs))
                await asyncio.sleep(FRAME_EVERY_S)

        try:
            async with _running(show):
                yield
        finally:
            end = meter.read()
            screen.paint(lambda width, _height: summary(end, width, glyphs=glyphs))


@contextlib.contextmanager
def _continued(screen: "Screen") -> Iterator[None]:
    """Paint a new frame after Ctrl-Z and `fg`, because the shell has written over the old one."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGCONT, screen.start_afresh)
    except (NotImplementedError, RuntimeError, ValueError):  # not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGCONT)


@contextlib.asynccontextmanager
async def _running(show: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run `show` while the body runs. An error in it only prints a warning and does not stop the
    collection.
    """
    showing = asyncio.ensure_future(show())
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait({showing})
        if not showing.cancelled() and (error := showing.exception()) is not None:
            notice(f"warning: the live view failed: {type(error).__name__}: {error}")

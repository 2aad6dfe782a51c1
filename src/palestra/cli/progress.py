"""The live view of a collection: a bar on a terminal, a line now and then elsewhere."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

from palestra.cli.console import notice
from palestra.errors import ConfigError
from palestra.rollouts import Progress

KINDS = ("rich", "plain", "none")
PLAIN_EVERY_S = 5.0


def choose_kind(asked: str | None) -> str:
    """`asked`, or what fits the output. Raises ConfigError for an unknown kind."""
    if asked is None:
        return "rich" if sys.stderr.isatty() else "plain"
    if asked not in KINDS:
        raise ConfigError(f"progress {asked!r} is unknown", hint=f"one of {', '.join(KINDS)}")
    return asked


def describe(progress: Progress) -> str:
    """One line: done, in flight, failed, rate, time left, mean reward."""
    accounting = progress.accounting
    done = accounting.scored + accounting.failed
    elapsed = max(time.monotonic() - progress.started, 1e-6)
    rate = (done - progress.done_before) / elapsed
    parts = [
        f"{done}/{accounting.requested} done",
        f"{len(progress.in_flight)} in flight",
        f"{accounting.failed} failed",
        f"{rate:.1f}/s",
    ]
    if rate > 0 and accounting.remaining:
        parts.append(f"{accounting.remaining / rate:.0f} s left")
    if accounting.mean_reward is not None:
        parts.append(f"mean reward {accounting.mean_reward:.3f}")
    if accounting.retried_attempts:
        parts.append(f"{accounting.retried_attempts} attempts repeated")
    return ", ".join(parts)


@contextlib.asynccontextmanager
async def live_view(kind: str, progress: Progress) -> AsyncIterator[None]:
    """Show `progress` while the body runs."""
    if kind == "none":
        yield
        return
    showing = asyncio.create_task(
        _rich(progress) if kind == "rich" else _plain(progress), name="live view"
    )
    try:
        yield
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing
        if kind == "plain":
            notice(describe(progress))


async def _plain(progress: Progress) -> None:
    while True:
        await asyncio.sleep(PLAIN_EVERY_S)
        notice(describe(progress))


async def _rich(progress: Progress) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        BarColumn(bar_width=24),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=False) as bars:
        task = bars.add_task("", total=progress.accounting.requested or 1)
        try:
            while True:
                _update(bars, task, progress)
                await asyncio.sleep(0.2)
        finally:
            _update(bars, task, progress)


def _update(bars: object, task: object, progress: Progress) -> None:
    accounting = progress.accounting
    bars.update(  # type: ignore[attr-defined]  # rich is imported where it is used
        task,
        completed=accounting.scored + accounting.failed,
        description=describe(progress),
    )

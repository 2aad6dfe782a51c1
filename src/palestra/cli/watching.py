"""The live view of a running collection, its events, and its last lines."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Final, final

import palestra
from palestra.cli.console import notice, warn_of_setting
from palestra.cli.guard import tell_guard
from palestra.cli.progress import choose_kind, live_view
from palestra.config import redact
from palestra.engine import Accounting
from palestra.errors import PalestraError
from palestra.fleet import Lag, LagLog, Watchdog, dumping_tasks
from palestra.rollouts import (
    Collected,
    EventFile,
    PreparedRun,
    Progress,
    RolloutEvents,
    announced,
    in_flight_lines,
    open_for_events,
    run,
)
from palestra.schema import JsonDict
from palestra.settings import CollectSettings
from palestra.system import background
from palestra.transport import ServerClient

PROGRESS_EVENT_EVERY_S: Final = 2.0


@final
@dataclass(slots=True)
class Watch:
    """How one command shows its collection. `view`: `rich`, `plain` or `none`."""

    view: str
    events: EventFile | None = None
    lag_threshold_s: float = 0.0
    """The shortest block of the event loop, in seconds, that is reported; 0 turns the watchdog off.
    """
    lags: LagLog = field(default_factory=lambda: LagLog(notice))
    most_in_flight: int | None = None
    """The largest number of rollouts at once that the process can have, when concurrency is
    automatic."""
    accounting: Accounting | None = None
    """The accounting of the collection, once it has begun."""
    events_target: str = ""
    """Where the events go; the guard needs it to write the last event in the command's place."""
    has_ended: bool = False
    """Whether the last event has been written."""

    def ended(self, code: int, message: str = "") -> int:
        """Write the last event, with the exit code of the command, and return `code`."""
        if self.events is not None:
            self.events.emit("run_ended", exit=code, message=message, **_accounts(self.accounting))
            self.has_ended = True
        return code

    def say_accounting(self) -> None:
        """Print how many rollouts were requested and how they ended, if the collection has begun."""
        if self.accounting is not None:
            notice(self.accounting.line())

    def close(self) -> None:
        """Write the events that are still queued. Needed by a process that ends at once."""
        if self.events is not None and self.events.close() and self.has_ended:
            tell_guard(events="")

    def on_lag(self, lag: Lag) -> None:
        """Report that the event loop was blocked, or still is."""
        self.lags(lag)
        if self.events is not None:
            blamed = lag.blamed
            self.events.emit(
                "lag",
                lasted_s=round(lag.lasted_s, 3),
                server=blamed.server if blamed is not None else "",
                where=blamed.where if blamed is not None else "",
                message=lag.message,
                over=lag.over,
            )

    def watchdog(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Return a watchdog that calls `on_lag`; when it is turned off, a context that does
        nothing.
        """
        if self.lag_threshold_s <= 0:
            return contextlib.nullcontext()
        return Watchdog(self.on_lag, threshold_s=self.lag_threshold_s)


@contextlib.contextmanager
def watching(
    progress: str | None, json_events: str | None, *, lag_threshold_s: float = 0.0
) -> Iterator[Watch]:
    """Open the view and the events of a command. The body must end with a call of `Watch.ended`.

    Raises ConfigError: the view is unknown, or the events cannot be written.
    """
    view = choose_kind(progress)
    if json_events is None:
        yield Watch(view, lag_threshold_s=lag_threshold_s)
        return
    with contextlib.ExitStack() as stack:
        fd = open_for_events(json_events)
        if json_events == "-":
            # Standard output is the machine's then; what people read goes beside it.
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        events = stack.enter_context(EventFile(fd, on_problem=warn_of_setting))
        watch = Watch(view, events, lag_threshold_s, events_target=json_events)
        try:
            yield watch
        except PalestraError as error:
            watch.ended(error.exit_code, error.message)
            raise
        finally:
            watch.close()


async def watched(
    prepared: PreparedRun, settings: CollectSettings, client: ServerClient, watch: Watch
) -> Collected:
    """Run a collection and show it. The accounting is printed even when it ends early."""
    draining = Draining(settings.drain_file) if settings.drain_file is not None else None
    watch.accounting = prepared.accounting
    started_progress: asyncio.Queue[Progress] = asyncio.Queue()
    if watch.events is not None:
        watch.events.emit("run_started", **_beginning(prepared, settings))

    async def show() -> None:
        progress = await started_progress.get()
        async with (
            live_view(watch.view, progress),
            _events_written(watch.events, progress),
            watch.watchdog(),
        ):
            with (
                announced(prepared.paths.output, progress, run=prepared.run_id),
                dumping_tasks(partial(in_flight_lines, progress)),
            ):
                await asyncio.Event().wait()

    showing = asyncio.create_task(show(), name="view")
    observers = [RolloutEvents(watch.events)] if watch.events is not None else []
    looking = asyncio.create_task(draining.look(), name="drain file") if draining else None
    try:
        return await run(
            prepared,
            settings,
            client,
            on_start=started_progress.put_nowait,
            observers=observers,
            most_rollouts=watch.most_in_flight,
            draining=draining.asked if draining else None,
        )
    except BaseException:
        await _end(showing)
        if prepared.paths.manifest.exists():
            notice(prepared.accounting.line())
        raise
    finally:
        await _end(showing)
        if looking is not None:
            await _end(looking)
        if summary := watch.lags.summary():
            notice(summary)


@final
class Draining:
    """Looks for the file that asks a collection to start no further rollouts.

    A file is used because a signal does not reach every container; where it does, it reaches every
    process of a Slurm step, which is too many.
    """

    LOOK_EVERY_S: Final = 0.5

    def __init__(self, file: Path) -> None:
        self._file = file
        self._asked = False

    def asked(self) -> bool:
        """Whether the last look found the file."""
        return self._asked

    async def look(self) -> None:
        """Look for the file until it exists; in a thread, because its file system may be slow."""
        while not self._asked:
            self._asked = await asyncio.to_thread(self._file.exists)
            await asyncio.sleep(self.LOOK_EVERY_S)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


@contextlib.asynccontextmanager
async def _events_written(events: EventFile | None, progress: Progress) -> AsyncIterator[None]:
    """Write events about the collection as a whole, every few seconds while the body runs."""
    if events is None:
        yield
        return
    async with background(_write_events(events, progress), "events"):
        yield


async def _write_events(events: EventFile, progress: Progress) -> None:
    from palestra.cli.snapshot import RateMeter

    meter = RateMeter(progress)
    retries = 0
    while True:
        now = meter.read()
        if now.retries > retries:
            new = now.retries - retries
            events.emit("retries", count=now.retries, new=new, reason=now.retry_reason)
            retries = now.retries
        events.emit(
            "progress",
            requested=now.requested,
            scored=now.scored,
            truncated=now.truncated,
            failed=now.failed,
            classes=dict(now.classes),
            in_flight=now.in_flight,
            limit=now.limit,
            rate=now.rate,
            left_s=now.left_s,
            mean_reward=now.mean_reward,
            output_tokens=now.tokens,
            repeated=now.repeated,
            retries=now.retries,
            elapsed_s=now.elapsed_s,
        )
        await asyncio.sleep(PROGRESS_EVENT_EVERY_S)


def _beginning(prepared: PreparedRun, settings: CollectSettings) -> JsonDict:
    run_settings = {setting.name: getattr(settings, setting.name) for setting in fields(settings)}
    shard = settings.shard
    run_settings["inputs"] = [str(file.path) for file in settings.inputs]
    run_settings["shard"] = None if shard is None else asdict(shard)
    return {
        "requested": prepared.manifest.requested,
        "remaining": prepared.remaining,
        "tasks": prepared.manifest.tasks,
        "output": str(prepared.paths.output),
        "settings": redact(run_settings),
        "version": palestra.__version__,
    }


def _accounts(accounting: Accounting | None) -> JsonDict:
    if accounting is None:
        return {}
    return {
        "requested": accounting.requested,
        "scored": accounting.scored,
        "failed": accounting.failed,
        "not_run": accounting.remaining,
        "outcomes": {outcome.value: n for outcome, n in sorted(accounting.ended.items()) if n},
        "empty_answers": accounting.empty_answers,
        "mean_reward": accounting.mean_reward,
    }

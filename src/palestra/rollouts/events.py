"""`--json-events`: what happens in a collection, for machines; one JSON object a line.

Every event has `event` and `at` (seconds since the epoch). Rollouts are named by `task` and
`rollout`; a `reward` is a number, or `null` for a failure.

| event | when | fields |
|---|---|---|
| `run_started` | before the first rollout | requested, remaining, tasks, output, settings, version |
| `rollout_started` | a rollout's first attempt of this session begins | task, rollout, agent |
| `attempt_failed` | an attempt is recorded as a failure | task, rollout, attempt, agent, class, layer, \
cause (where it is known), terminal, message, hint, hops, elapsed_s |
| `rollout_ended` | a rollout has ended, scored or not | task, rollout, agent, outcome, reward, \
attempts, elapsed_s, output_tokens |
| `progress` | every few seconds | requested, scored, truncated, failed, classes, in_flight, limit, \
rate, left_s, mean_reward, output_tokens, repeated, retries, elapsed_s |
| `retries` | requests were sent again since the last look | count (in all), new, reason |
| `lag` | the event loop was blocked | lasted_s, server, where, message, over |
| `events_dropped` | nobody has read the events for long | count |
| `run_ended` | last | exit, message, requested, scored, failed, not_run, outcomes, \
empty_answers, mean_reward |

A thread writes, at least each second and at the end. What cannot be written is given up with one
warning: a collection never ends because of its events.
"""

import contextlib
import errno
import os
import re
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self, final

import orjson

from palestra.engine import Job
from palestra.rollouts.results import FailedRow, Scored
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_LAYER,
    FAILURE_TERMINAL,
    JsonDict,
    JsonObject,
    RolloutKey,
    RunPaths,
)
from palestra.settings import InvalidSettings, SettingProblem
from palestra.system import shown

FLUSH_EVERY_S: Final = 0.5
FLUSH_BYTES: Final = 1 << 18
MOST_WAITING_BYTES: Final = 1 << 26
"""The maximum size of events that wait to be written. Further events are dropped and counted."""
LAST_FLUSH_S: Final = 3.0
LONGEST_END_BYTES: Final = 65_536
"""The number of bytes at the end of an event file that are searched for its last event."""
END_WITHIN_S: Final = 1.0
"""The maximum time in seconds to write `run_ended` to a slow reader, when the guard process of a
killed run writes it."""

_FIRST_BYTES: Final = b'{"event":'
"""How each line of an event file begins."""
_DESCRIPTORS = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


def events_problem(sentence: str) -> SettingProblem:
    """Return a problem with the target of the events, which the flag or the setting names."""
    return SettingProblem("json_events", ("--json-events",), sentence)


def refuse_events_in(paths: RunPaths, target: str | None) -> None:
    """Raise InvalidSettings: events would be added to a file that the run itself writes."""
    if target is None or target == "-" or not paths.writes(Path(target)):
        return
    sentence = f"{target!r} is a file of the run itself, whose --output is {shown(paths.output)}"
    raise InvalidSettings.of(
        [events_problem(sentence)], hint=f"name another file, such as {shown(paths.events)}"
    )


def open_for_events(target: str) -> int:
    """Open `target` for appending events and return the file descriptor. `target`: a path, `-` for
    standard output, `/dev/stderr`, or a pipe.

    Raises InvalidSettings: it cannot be written, or it is a file of anything else.
    """
    numbered = _NUMBERED.fullmatch(target)
    number = int(numbered.group(1)) if numbered else _DESCRIPTORS.get(target)
    try:
        if number is not None:
            # Not opened anew: a file's position would be lost, and a socket has no name.
            return os.dup(number)
        _refuse_lines_of_others(target)
        # Without waiting: a named pipe that nobody reads is an error, not a reason to hang.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(target, flags, 0o666)
    except OSError as error:
        reason = "no process reads that pipe" if error.errno == errno.ENXIO else error.strerror
        sentence = f"cannot write to {target!r}: {reason}"
        raise InvalidSettings.of(
            [events_problem(sentence)],
            hint="name a file in a folder that exists, or - for standard output",
        ) from error
    os.set_blocking(fd, True)
    return fd


def _refuse_lines_of_others(target: str) -> None:
    """Raise InvalidSettings: the file at `target` does not begin with an event."""
    path = Path(target)
    if not path.is_file():
        return
    with path.open("rb") as file:
        start = file.read(len(_FIRST_BYTES))
    if not _FIRST_BYTES.startswith(start):
        sentence = f"{target!r} exists, and it is no file of events"
        raise InvalidSettings.of([events_problem(sentence)], hint="name a new file")


@final
class EventFile:
    """The writer of events. Use it as a context manager; `emit` may be called from any thread.

    `on_problem`: called once when writing fails.
    """

    def __init__(
        self,
        fd: int,
        *,
        on_problem: Callable[[SettingProblem], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fd = fd
        self._on_problem = on_problem
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._failed = False
        self._ending = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True, name="json events")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> bool:
        """Write the remaining events; later ones are ignored. Return False when some could not be
        written in time.
        """
        if self._ending:
            return not self._thread.is_alive()
        self._ending = True
        self._wake.set()
        self._thread.join(LAST_FLUSH_S)
        if self._thread.is_alive():
            self._on_problem(
                events_problem("no process reads the events; the last events are lost")
            )
            return False
        return True

    def emit(self, event: str, /, **fields: Any) -> None:
        """Queue an event, which a thread writes within a second."""
        if self._failed:
            return
        record = {"event": event, "at": self._clock(), **fields}
        line = orjson.dumps(record, default=str, option=orjson.OPT_NON_STR_KEYS)
        with self._lock:
            if self._waiting_bytes > MOST_WAITING_BYTES:
                self._dropped += 1
                return
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            full = self._waiting_bytes > FLUSH_BYTES
        if full:
            self._wake.set()

    # On the thread

    def _work(self) -> None:
        try:
            while not self._ending:
                self._wake.wait(FLUSH_EVERY_S)
                self._wake.clear()
                self._write(self._take())
            self._write(self._take())
        except OSError as error:
            self._failed = True
            self._on_problem(events_problem(f"{error.strerror}; no further events are written"))
        finally:
            with contextlib.suppress(OSError):
                os.close(self._fd)

    def _take(self) -> bytes:
        with self._lock:
            lines, self._waiting = self._waiting, []
            dropped, self._dropped = self._dropped, 0
            self._waiting_bytes = 0
        if dropped:
            record = {"event": "events_dropped", "at": self._clock(), "count": dropped}
            lines.append(orjson.dumps(record))
        return b"".join(line + b"\n" for line in lines)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:  # a descriptor that somebody made non-blocking
                time.sleep(0.05)


def end_events(target: str, *, code: int, message: str, since: float) -> None:
    """Append `run_ended` for a process that ended without writing it.

    Do nothing when the file already ends with this event. `since`: the start of the process,
    because earlier processes may have written to the same file. Raises ConfigError: `target` cannot
    be opened. OSError: it cannot be written within `END_WITHIN_S`, for example a full pipe.
    """
    tail = _tail(target)
    if _ends_after(tail, since):
        return
    is_torn = tail != b"" and not tail.endswith(b"\n")
    fd = open_for_events(target)
    payload = {"event": "run_ended", "at": time.time(), "exit": code, "message": message}
    line = orjson.dumps(payload) + b"\n"
    try:
        _write_within(fd, b"\n" + line if is_torn else line, END_WITHIN_S)
    finally:
        os.close(fd)


def _tail(target: str) -> bytes:
    """Return the end of an event file; empty when it is not a regular file, such as a pipe."""
    path = Path("/dev/stdout" if target == "-" else target)
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LONGEST_END_BYTES))
        return file.read()


def _ends_after(tail: bytes, since: float) -> bool:
    """Whether the last event is a `run_ended` at or after `since`."""
    last = tail.removesuffix(b"\n").rpartition(b"\n")[2]
    try:
        last_event = orjson.loads(last)
        is_its = last_event["event"] == "run_ended" and last_event["at"] >= since
    except (ValueError, TypeError, KeyError):
        return False
    return is_its and tail.endswith(b"\n")


def _write_within(fd: int, data: bytes, timeout_s: float) -> None:
    """Write `data`. Raises TimeoutError: the descriptor does not accept it in time. OSError: the
    write fails.
    """
    deadline = time.monotonic() + timeout_s
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    view = memoryview(data)
    while view:
        left_s = max(0.0, deadline - time.monotonic())
        if not poll.poll(left_s * 1000):
            raise TimeoutError(errno.ETIMEDOUT, "no process reads the events")
        # As much as a pipe has room for when it says that it can be written.
        view = view[os.write(fd, view[: select.PIPE_BUF]) :]


@final
class RolloutEvents:
    """An `Observer` that writes events about rollouts to an `EventFile`."""

    def __init__(self, events: EventFile, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = events
        self._clock = clock

    def rollout_started(self, key: RolloutKey, job: Job, /) -> None:
        """Write a `rollout_started` event."""
        self._events.emit("rollout_started", task=key.task, rollout=key.rollout, agent=job.agent)

    def attempt_ended(self, result: Scored | FailedRow, job: Job, /) -> None:
        """Write `attempt_failed` for a failed attempt, and `rollout_ended` for an ended rollout."""
        reward: float | None = None
        tokens = 0
        if isinstance(result, Scored):
            reward, tokens = result.ending.reward, result.ending.output_tokens
        else:
            self._events.emit("attempt_failed", **_failure(result))
            if not result.terminal:
                return
        self._events.emit(
            "rollout_ended",
            task=result.key.task,
            rollout=result.key.rollout,
            agent=job.agent,
            outcome=result.outcome.value,
            reward=reward,
            attempts=job.attempt,
            elapsed_s=round(self._clock() - job.started, 3),
            output_tokens=tokens,
        )


def _failure(result: FailedRow) -> JsonDict:
    """Return the fields of an `attempt_failed` event, from the row of the failures file."""
    row: JsonObject = orjson.loads(result.line)
    return {
        "task": result.key.task,
        "rollout": result.key.rollout,
        "attempt": row["attempt"],
        "agent": row["agent_ref"]["name"],
        "class": row[FAILURE_CLASS],
        "layer": row[FAILURE_LAYER],
        **({"cause": row["cause"]} if "cause" in row else {}),
        "terminal": row[FAILURE_TERMINAL],
        "message": row["message"],
        "hint": row["hint"],
        "hops": row["hops"],
        "elapsed_s": row["elapsed_s"],
    }

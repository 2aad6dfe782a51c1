"""On `SIGUSR1`, print to standard error what every thread and every task of the process is doing.

The threads are printed at once, even while other code holds the interpreter's lock. The tasks are
printed as soon as the main thread runs Python code again, even if it does not return to the event
loop. The process continues to run.
"""

import asyncio
import contextlib
import faulthandler
import io
import signal
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from palestra.config import PACKAGE_ROOT

DEEPEST: Final = 12
_WHOLE: Final = 200
_STANDARD: Final = (sysconfig.get_path("stdlib"), "<frozen")
MOST: Final = 200
"""How many waiting places, and how many rollouts, the dump lists at most. It only counts the
others."""


@contextlib.contextmanager
def dumping_tasks(first_lines: Callable[[], Iterable[str]] = tuple) -> Iterator[None]:
    """Print the dump on `SIGUSR1` while the body runs on the event loop. `first_lines`: returns
    lines printed before the tasks.
    """
    loop = asyncio.get_running_loop()

    def dump(_number: int, _frame: FrameType | None) -> None:
        text = "\n".join(task_dump(loop, first_lines()))
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are somebody else's
        return
    # The threads' dump goes in front of the handler, so it is taken off before that changes.
    faulthandler.unregister(signal.SIGUSR1)
    before = signal.signal(signal.SIGUSR1, dump)
    _dump_threads_first()
    try:
        yield
    finally:
        faulthandler.unregister(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, before)
        if callable(before):  # a dump around this one
            _dump_threads_first()


def _dump_threads_first() -> None:
    # Standard error may be no file, as in tests.
    with contextlib.suppress(io.UnsupportedOperation, AttributeError, RuntimeError):
        faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True, chain=True)


def task_dump(loop: asyncio.AbstractEventLoop, first_lines: Iterable[str] = ()) -> Iterator[str]:
    """Yield the lines of the dump: `first_lines`, then the tasks of `loop`. Tasks that wait at the
    same place share one entry.
    """
    first = list(first_lines)
    if first:
        yield f"--- in flight: {len(first)} ---"
        yield from _first_lines(first)
    stacks: Counter[tuple[str, ...]] = Counter()
    names: dict[tuple[str, ...], str] = {}
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        stack = _stack(task)
        stacks[stack] += 1
        names.setdefault(stack, task.get_name())
    yield f"--- tasks: {len(tasks)} ---"
    for stack, count in stacks.most_common(MOST):
        others = f" and {count - 1} more" if count > 1 else ""
        yield f"{names[stack]}{others}"
        yield from (f"  {line}" for line in stack)
    if len(stacks) > MOST:
        yield f"… and {len(stacks) - MOST} other places"
    yield "--- end ---"


def unfinished_work(loop: asyncio.AbstractEventLoop, *, limit: int = 3) -> list[str]:
    """Return what the cancelled tasks of `loop` are still doing, such as `7 in X.verify (app.py:18)`:
    of at most `limit` places, the commonest first. When the loop is blocked, the task that blocks it.

    It may be called on another thread than the loop's.
    """
    cancelled_tasks = [task for task in asyncio.all_tasks(loop) if task.cancelling()]
    stacks = [_stack(task, deepest=_WHOLE) for task in cancelled_tasks] or [_main_stack()]
    counts = Counter(filter(None, map(_authors_line, stacks))) or Counter(map(_last_line, stacks))
    lines = [f"{count} in {line}" for line, count in counts.most_common(limit)]
    further = sum(count for _, count in counts.most_common()[limit:])
    return [*lines, f"{further} elsewhere"] if further else lines


def _main_stack() -> tuple[str, ...]:
    """Return where the main thread is, with its outermost frame first."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001  # for this
    lines: list[str] = []
    while frame is not None:
        lines.append(_line_of(frame))
        frame = frame.f_back
    return tuple(reversed(lines))


def _line_of(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}"


def _authors_line(stack: tuple[str, ...]) -> str:
    """Return the innermost place in a file of an author; empty without one."""
    others = (*_STANDARD, str(PACKAGE_ROOT))
    return _last_line(tuple(line for line in stack if not line.startswith(others)))


def _last_line(stack: tuple[str, ...]) -> str:
    if not stack:
        return ""
    position, _, function = stack[-1].rpartition(" ")
    return f"{function} ({Path(position).name})"


def _first_lines(lines: list[str]) -> Iterator[str]:
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield f"… and {len(lines) - MOST} more"


def _stack(task: "asyncio.Task[Any]", *, deepest: int = DEEPEST) -> tuple[str, ...]:
    """Return where a task waits, with its outermost coroutine first.

    `Task.get_stack` returns the outermost frame only, so this follows the chain of awaited objects.
    """
    lines: list[str] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(lines) < deepest:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            lines.append(_line_of(frame))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return tuple(lines)

"""A Python interpreter that runs one cell after another, and keeps what the cells define.

A message is JSON, `{"code": …, "cpu_s": …, "output_chars": …}`. Its answer is JSON, too:
`{"stdout": …, "stderr": …, "result": …, "failed": …, "notice": …}`.

Threads that a cell leaves behind continue during the next cell, as in a notebook, and use its CPU
time. Between cells they do not run. When a cell reaches its limit, all of them are stopped. The
notice names what is still running.
"""

import ast
import ctypes
import io
import json
import linecache
import os
import resource
import select
import signal
import sys
import threading
import time
import traceback
import types
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from frames import Channel  # type: ignore[import-not-found]  # its neighbour, in the sandbox

CUT = "\n[the rest is cut]\n"

GRACE_S = 3.0
"""A cell that continues for this many CPU seconds after its limit ends the whole interpreter."""

STILL_S = 0.05
"""The interval in seconds in which threads must use almost no CPU time to count as stopped."""

STILL_COUNT = 4
"""The number of such intervals in a row. In one of them a busy machine may not run them at all."""

MOST_NAMES = 5
"""The maximum number of threads that a notice names."""


class CellTimedOut(BaseException):
    """The cell used up its CPU time. It is a BaseException, so that `except Exception` does not
    catch it.
    """


class Kept(io.StringIO):
    """Keeps only the first `room` characters that are written."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, text: str) -> int:
        if self._room > 0:
            super().write(text[: self._room] + (CUT if len(text) > self._room else ""))
        self._room -= len(text)
        return len(text)


class Poll(ctypes.Structure):
    """The argument of the C library's `poll`: `struct pollfd`."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


class StillChannel(Channel):  # type: ignore[misc]
    """A channel that keeps Python's global lock while it waits for a message.

    So threads of earlier cells cannot run between cells, where no limit would count their CPU time.
    """

    def receive(self) -> bytes | None:
        """Return the next message; None when the other side has closed the conversation."""
        poll_request = Poll(self._fd, select.POLLIN, 0)
        while ctypes.PyDLL(None).poll(ctypes.byref(poll_request), 1, -1) < 0:
            pass  # a signal
        message: bytes | None = super().receive()
        return message


def main() -> None:
    """Run cells until the conversation is closed."""
    channel = StillChannel()
    interpreter = Interpreter()
    while (message := channel.receive()) is not None:
        channel.send(json.dumps(interpreter.run(json.loads(message))).encode())


class Interpreter:
    """The names that cells have defined, and the threads and processes that they left running."""

    def __init__(self) -> None:
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self._names = module.__dict__
        self._number = 0
        self._told_of: set[int] = set()
        """Threads; and 0 for processes."""
        signal.signal(signal.SIGXCPU, _time_is_up)
        threading.Thread.start = _start_deaf  # type: ignore[method-assign, assignment]
        sys.set_int_max_str_digits(0)
        # Deep recursion of the main thread; those of other threads stay as small as they are.
        _, hard_limit = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (hard_limit, hard_limit))

    def run(self, cell: dict[str, Any]) -> dict[str, Any]:
        """Run a cell and return the answer."""
        self._number += 1
        out, err = Kept(cell["output_chars"]), Kept(cell["output_chars"])
        result, error_text = None, ""
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        others_used_s = _used_by_others_s()
        try:
            with redirect_stdout(out), redirect_stderr(err):
                try:
                    _allow(cell["cpu_s"], hard)
                    result = _evaluate(cell["code"], f"<cell {self._number}>", self._names)
                finally:
                    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
        except CellTimedOut:
            error_text = _timed_out(cell["cpu_s"], _used_by_others_s() - others_used_s)
            _stop_threads()
        except BaseException as error:
            # Of a long traceback the end says what happened.
            error_text = _error_text(error)[-cell["output_chars"] :]
        signal.setitimer(signal.ITIMER_PROF, 0)
        if result is not None:
            kept_output = Kept(cell["output_chars"])
            kept_output.write(result)
            result = kept_output.getvalue()
        return {
            "stdout": out.getvalue(),
            "stderr": err.getvalue() + error_text,
            "result": result,
            "failed": bool(error_text),
            "notice": self._left_running(),
        }

    def _left_running(self) -> str:
        """Return a notice about threads and processes that still run after the cell, without those
        that the last notice already named.
        """
        running = dict.fromkeys(_others(), "a thread without a name")
        for thread in threading.enumerate():
            if thread.ident in running:
                running[thread.ident] = f"the thread {thread.name[:100]}"
        if _has_children():
            running[0] = "a process"
        news = [name for ident, name in running.items() if ident not in self._told_of]
        self._told_of = set(running)
        if not news:
            return ""
        hidden_count = len(news) - MOST_NAMES
        name_list = ", ".join(news[:MOST_NAMES]) + (
            f", and {hidden_count} more" if hidden_count > 0 else ""
        )
        return f"Still running: {name_list}. Threads stand still between cells, and use later ones' time."


def _evaluate(code: str, name: str, names: dict[str, Any]) -> str | None:
    """Run a cell. Return the `repr` of its last line, if this is an expression whose value is not
    None.
    """
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)  # noqa: S102  # what it is for
    if not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), name, "eval"), names)  # noqa: S307
    names["_"] = value
    return None if value is None else repr(value)


def _allow(cpu_s: float, hard: int) -> None:
    """Set a limit of `cpu_s` more CPU seconds, after which the kernel sends a signal. It is rounded
    up to whole seconds.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + cpu_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (min(soft, hard), hard))
    # Native code does not look, and a cell may hold on to its life: then the kernel ends us all.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_s + GRACE_S)


def _timed_out(limit_s: float, others_s: float) -> str:
    by_others = f", of which other threads used {others_s:.1f} s" if others_s > 0.1 else ""
    return f"TimeoutError: stopped after {limit_s:g} s of CPU time{by_others}\n"


def _others() -> set[int]:
    """Return the ids of the threads besides this one."""
    return sys._current_frames().keys() - {threading.get_ident()}  # noqa: SLF001


def _used_by_others_s() -> float:
    return time.process_time() - time.thread_time()


def _stop_threads() -> None:
    """Raise CellTimedOut in all other threads. A waiting thread gets it when it runs again.

    Returns when the threads use almost no CPU time. Until then the cell's last timer is running.
    """
    for ident in _others():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(ident), ctypes.py_object(CellTimedOut)
        )
    still_count = 0
    while still_count < STILL_COUNT:
        used_s = _used_by_others_s()
        time.sleep(STILL_S)
        is_still = _used_by_others_s() - used_s <= STILL_S / 50
        still_count = still_count + 1 if is_still else 0


def _has_children() -> bool:
    """Whether processes of earlier cells exist, and none of them has just ended."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


_start = threading.Thread.start


def _start_deaf(thread: threading.Thread) -> None:
    """Start a thread that does not receive the signal of the time limit; the main thread receives
    it.

    Otherwise the main thread would not wake up while it waits for this thread to end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})
    try:
        _start(thread)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _time_is_up(_number: int, _frame: object) -> None:
    # The kernel tells again each second; the next is for the next cell.
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
    raise CellTimedOut


def _error_text(error: BaseException) -> str:
    """Return the traceback as an interpreter prints it, without the frames of this program."""
    try:
        trace = error.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
            trace = trace.tb_next
        trace_lines = traceback.format_exception(type(error), error.with_traceback(trace), trace)
        return "".join(trace_lines)
    except BaseException:
        # Its own str() may do anything.
        return f"{type(error).__name__}\n"


if __name__ == "__main__":
    main()

"""A Python interpreter that is told one cell after the other, and remembers what they define.

A message is JSON, `{"code": …, "cpu_s": …, "output_chars": …}`; so is its answer, `{"stdout": …,
"stderr": …, "result": …, "failed": …, "notice": …}`.

Threads that a cell leaves behind go on with the next cell, as in a notebook, and use its time; in
between they stand still, and at a cell's limit all of them are stopped. What is left is told.
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
"""CPU seconds beyond its limit after which a cell that went on ends the whole interpreter."""

STILL_S = 0.05
"""How long threads must use next to no processor to count as stopped."""

MOST_NAMES = 5
"""Of threads, in a notice."""


class CellTimedOut(BaseException):
    """The cell used its CPU time. No ordinary exception: `except Exception` must not stop it."""


class Kept(io.StringIO):
    """Keeps the first so many characters of what is written."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, text: str) -> int:
        if self._room > 0:
            super().write(text[: self._room] + (CUT if len(text) > self._room else ""))
        self._room -= len(text)
        return len(text)


class Poll(ctypes.Structure):
    """What `poll` of the C library is asked."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


class StillChannel(Channel):  # type: ignore[misc]
    """A channel that keeps Python's own lock while it waits for a message.

    Threads of earlier cells cannot go on then: what they use between cells, no limit would count.
    """

    def receive(self) -> bytes | None:
        """The next message; None when there will be no other."""
        poll_request = Poll(self._fd, select.POLLIN, 0)
        while ctypes.PyDLL(None).poll(ctypes.byref(poll_request), 1, -1) < 0:
            pass  # a signal
        message: bytes | None = super().receive()
        return message


def main() -> None:
    """Run cells until there are no more."""
    channel = StillChannel()
    interpreter = Interpreter()
    while (message := channel.receive()) is not None:
        channel.send(json.dumps(interpreter.run(json.loads(message))).encode())


class Interpreter:
    """What cells have defined, and what they have left running."""

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
        """Run a cell; the answer."""
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
            error_text = _told(error)[-cell["output_chars"] :]
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
        """What has not been told yet of what goes on after the cell."""
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
    """Run a cell; what its last line shows when that is an expression."""
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
    """Have the kernel tell us when so much more CPU time is used. Whole seconds, rounded up."""
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
    """Threads besides this one."""
    return sys._current_frames().keys() - {threading.get_ident()}  # noqa: SLF001


def _used_by_others_s() -> float:
    return time.process_time() - time.thread_time()


def _stop_threads() -> None:
    """Stop what goes on in other threads. One that waits is stopped when it goes on.

    Returns when they are still; until then the cell's last timer runs.
    """
    for ident in _others():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(ident), ctypes.py_object(CellTimedOut)
        )
    used_s = -1.0
    while _used_by_others_s() - used_s > STILL_S / 5:
        used_s = _used_by_others_s()
        time.sleep(STILL_S)


def _has_children() -> bool:
    """Whether there are processes of earlier cells, and none that has just ended."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


_start = threading.Thread.start


def _start_deaf(thread: threading.Thread) -> None:
    """Start a thread that leaves the signal of the time limit to this one.

    Had it got the signal, this one would not wake from waiting for it to end.
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


def _told(error: BaseException) -> str:
    """A traceback as an interpreter shows it, without our own frames."""
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

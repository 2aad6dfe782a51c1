"""A Python interpreter that is told one cell after the other, and remembers what they define.

A message is JSON, `{"code": …, "cpu_s": …, "output_chars": …}`; so is its answer, `{"stdout": …,
"stderr": …, "result": …, "failed": …}`.
"""

import ast
import io
import json
import linecache
import resource
import signal
import sys
import traceback
import types
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from frames import Channel  # type: ignore[import-not-found]  # its neighbour, in the sandbox

CUT = "\n[the rest is cut]\n"


class CellTimedOut(BaseException):
    """The cell used its CPU time. No ordinary exception: `except Exception` must not stop it."""


class Kept(io.StringIO):
    """Keeps the first so many characters of what is written."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._room = most

    def write(self, text: str) -> int:
        if self._room > 0:
            super().write(text[: self._room] + (CUT if len(text) > self._room else ""))
        self._room -= len(text)
        return len(text)


def main() -> None:
    """Run cells until there are no more."""
    channel = Channel()
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    signal.signal(signal.SIGXCPU, _time_is_up)
    sys.set_int_max_str_digits(0)
    number = 0
    while (message := channel.receive()) is not None:
        number += 1
        channel.send(json.dumps(_run(json.loads(message), module.__dict__, number)).encode())


def _run(cell: dict[str, Any], names: dict[str, Any], number: int) -> dict[str, Any]:
    out, err = Kept(cell["output_chars"]), Kept(cell["output_chars"])
    result, told = None, ""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                _allow(cell["cpu_s"], hard)
                result = _evaluate(cell["code"], f"<cell {number}>", names)
            finally:
                resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
    except CellTimedOut:
        told = f"TimeoutError: stopped after {cell['cpu_s']:g} s of CPU time\n"
    except BaseException as error:
        # Of a long traceback the end says what happened.
        told = _told(error)[-cell["output_chars"] :]
    if result is not None:
        kept = Kept(cell["output_chars"])
        kept.write(result)
        result = kept.getvalue()
    stderr = err.getvalue() + told
    return {"stdout": out.getvalue(), "stderr": stderr, "result": result, "failed": bool(told)}


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
        shown = traceback.format_exception(type(error), error.with_traceback(trace), trace)
        return "".join(shown)
    except BaseException:
        # Its own str() may do anything.
        return f"{type(error).__name__}\n"


if __name__ == "__main__":
    main()

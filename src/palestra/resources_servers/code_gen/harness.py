"""Runs inside the sandbox: one program, test after test, each in a process of its own.

The first message is JSON, `{"code", "fn_name", "cpu_s", "wall_s", "output_bytes"}`; its answer
`{"error": …}`, null when the code compiles. Each further message is a test's input; its answer a
line of JSON, `{"status", "error", "cpu_s"}`, and then what the program wrote. Expected outputs
stay outside: a program that takes over this process can only say what it would have answered.

With `fn_name` the input is one JSON value a line, the function's arguments, and what is answered
is JSON of what it returned. Else the input is standard input.
"""

import contextlib
import gc
import json
import os
import resource
import select
import signal
import sys
import time
import types
from pathlib import Path
from typing import Any, NoReturn

from frames import Channel  # type: ignore[import-not-found]  # its neighbour, in the sandbox

STARS = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json builtins typing"
)
"""Whose names programs use without importing them, as the benchmark permits; in this order, in
which later ones win."""

MODULES = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json"
)
RECURSION_LIMIT = 50_000
IN, OUT, TOLD = ".input", ".output", ".told"

NOT_EQUAL_TO_JSON = {"no JSON value is equal to this": True}


class Unequal(Exception):
    """A returned value that no expected value can be equal to."""


def main() -> None:
    """Answer messages until there are no more."""
    channel = Channel()
    message = channel.receive()
    if message is None:
        return
    task = json.loads(message)
    try:
        code = compile(task["code"], "solution.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        channel.send(json.dumps({"error": repr(error)[:1000]}).encode())
        return
    names = prelude()
    gc.freeze()
    channel.send(b'{"error": null}')
    while (given := channel.receive()) is not None:
        Path(IN).write_bytes(given)
        Path(TOLD).write_bytes(b"")
        Path(OUT).write_bytes(b"")
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            channel.close()
            solve(task, code, names)
        channel.send(outcome(child, task, began))


def prelude() -> dict[str, Any]:
    """The names that a program finds without importing them."""
    names: dict[str, Any] = {}
    for module in STARS.split():
        exec(f"from {module} import *", names)  # noqa: S102
    for module in MODULES.split():
        exec(f"import {module}", names)  # noqa: S102
    return names


# In the child


def solve(task: dict[str, Any], code: types.CodeType, names: dict[str, Any]) -> NoReturn:
    """Run the program on the input, and end as any Python program ends."""
    os.setsid()
    told = os.open(TOLD, os.O_WRONLY | os.O_APPEND)
    for number, path, flags in ((0, IN, os.O_RDONLY), (1, OUT, os.O_WRONLY | os.O_APPEND)):
        fd = os.open(path, flags)
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    limit(resource.RLIMIT_CPU, int(task["cpu_s"]) + 1)
    limit(resource.RLIMIT_FSIZE, task["output_bytes"] + 1)
    sys.setrecursionlimit(RECURSION_LIMIT)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    module.__dict__.update(names, __name__="__main__", __builtins__=__builtins__)
    module.__dict__.update(stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr)
    try:
        if task["fn_name"]:
            returned = call(task, code, module)
            Path(OUT).write_bytes(returned)
        else:
            exec(code, module.__dict__)  # noqa: S102
        sys.stdout.flush()
    except SystemExit:
        os.write(told, b"null")
    except BaseException as error:
        os.write(told, json.dumps(told_of(error)).encode())
    else:
        os.write(told, b"null")
    sys.exit()


def call(task: dict[str, Any], code: types.CodeType, module: types.ModuleType) -> bytes:
    """JSON of what the function returns."""
    arguments = [json.loads(line) for line in Path(IN).read_text("utf-8").split("\n")]
    module.__dict__["__name__"] = "solution"
    sys.modules["solution"] = module
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    exec(code, module.__dict__)  # noqa: S102
    holder = module.Solution() if "class Solution" in task["code"] else module
    returned = getattr(holder, task["fn_name"])(*arguments)
    try:
        value = plain(list(returned) if isinstance(returned, tuple) else returned)
    except Unequal:
        value = NOT_EQUAL_TO_JSON
    return json.dumps(value).encode()


def plain(value: Any) -> Any:
    """The value, as nothing but what JSON gives: a subclass may say that it equals anything.

    A tuple inside of it is no list, and keys are texts.
    """
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    if type(value) is list:
        return [plain(item) for item in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: plain(item) for key, item in value.items()}
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return plain(value.item())
    raise Unequal


def told_of(error: BaseException) -> str:
    """An exception, whatever its own methods do."""
    try:
        return repr(error)[:1000]
    except BaseException:
        return type(error).__name__


def limit(kind: int, value: int) -> None:
    """Lower a limit of this process for good."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


# In the parent


def outcome(child: int, task: dict[str, Any], began: float) -> bytes:
    """Wait for the child, at most as long as it may take; the answer to its test."""
    in_time = wait(child, began + task["wall_s"])
    kill_rest(child)
    _, status, used = os.wait4(child, 0)
    kill_rest(child)
    cpu_s = used.ru_utime + used.ru_stime
    with open(OUT, "rb") as written:  # noqa: PTH123
        output = written.read(task["output_bytes"] + 1)
    error: str | None = ""
    with contextlib.suppress(ValueError, OSError):
        error = json.loads(Path(TOLD).read_bytes())
    if not in_time or cpu_s > task["cpu_s"]:
        verdict, error = "timeout", "TimeoutException()"
    elif len(output) > task["output_bytes"]:
        verdict, error, output = "output", "the output is too long", b""
    elif error is None or (error == "" and status == 0):
        verdict, error = "ended", None
    else:
        code = os.waitstatus_to_exitcode(status)
        verdict, error = "error", error or f"ended with exit code {code}"
    head = {"status": verdict, "error": error, "cpu_s": cpu_s}
    return json.dumps(head).encode() + b"\n" + output


def wait(child: int, deadline: float) -> bool:
    """Whether the child ends by then."""
    pidfd = os.pidfd_open(child)
    try:
        left_s = max(0.0, deadline - time.monotonic())
        return bool(select.select([pidfd], [], [], left_s)[0])
    finally:
        os.close(pidfd)


def kill_rest(child: int) -> None:
    """Kill the child, and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpid() == 2 and os.getppid() == 1:
            # In a process namespace of our own, where all others are its descendants.
            os.kill(-1, signal.SIGKILL)
        else:
            os.killpg(child, signal.SIGKILL)


if __name__ == "__main__":
    main()

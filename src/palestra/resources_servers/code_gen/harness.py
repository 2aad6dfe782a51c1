"""The harness inside the sandbox. It runs one program on each test, in a new process per test.

The first message is JSON: `{"code", "fn_name", "cpu_s", "wall_s", "output_bytes"}`. The reply is
`{"error": …}`, with null when the code compiles. Each later message is the input of one test. The
reply is one line of JSON, `{"status", "error", "cpu_s"}`, followed by the output of the program.
Expected outputs stay outside the sandbox, so a program that takes over this process cannot read
them.

With `fn_name`, the input holds the function's arguments, one JSON value per line, and the output is
the JSON of the result. Without `fn_name`, the input is the standard input of the program.
"""

import atexit
import contextlib
import gc
import json
import os
import resource
import select
import signal
import sys
import threading
import time
import types
from typing import Any, NoReturn, Self

from frames import Channel  # type: ignore[import-not-found]  # its neighbour, in the sandbox

STARS = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json builtins typing"
)
"""Modules whose names a program can use without an import, as the benchmark permits. On a clash,
the later module wins."""

MODULES = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json"
)
RECURSION_LIMIT = 50_000
INTEGER_DIGITS = 50_000
LONGEST_TOLD = 100_000

NOT_EQUAL_TO_JSON = {"no JSON value is equal to this": True}


class Unequal(Exception):
    """Raised for a result that cannot equal any JSON value."""


def main() -> None:
    """Reply to messages until the channel closes."""
    channel = Channel()
    message = channel.receive()
    if message is None:
        return
    task = json.loads(message)
    sys.set_int_max_str_digits(INTEGER_DIGITS)
    allow_deep_recursion()
    try:
        code = compile(task["code"], "solution.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        channel.send(json.dumps({"error": repr(error)[:1000]}).encode())
        return
    names = prelude()
    gc.freeze()
    channel.send(b'{"error": null}')
    while (stdin := channel.receive()) is not None:
        with Files() as files:
            files.give(stdin)
            began = time.monotonic()
            child = os.fork()
            if child == 0:
                channel.close()
                solve(task, code, names, stdin, files)
            channel.send(outcome(child, task, files, began))


def allow_deep_recursion() -> None:
    """Raise the stack limit of the main thread as far as allowed.

    The C library read the limit at the start and uses it for the stacks of other threads. So those
    stacks stay small, and many fit into the address space.
    """
    _, hard_limit = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (hard_limit, hard_limit))


class Files:
    """The files of one test: its input, its output, and the child's error message. They have no
    names.

    So a program cannot find, remove or replace them.
    """

    def __enter__(self) -> Self:
        self.input, self.output, self.told = Scratch(), Scratch(), Scratch()
        return self

    def __exit__(self, *exception: object) -> None:
        for file in (self.input, self.output, self.told):
            file.close()

    def give(self, stdin: bytes) -> None:
        """Write the standard input of the test into the input file."""
        view = memoryview(stdin)
        while view:
            view = view[os.write(self.input.end, view) :]


class Scratch:
    """A file with two descriptors: one to read from the beginning, one to append at the end."""

    def __init__(self) -> None:
        name = f".{os.urandom(16).hex()}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self.end = os.open(name, flags, 0o600)
        self.beginning = os.open(name, os.O_RDONLY)
        os.unlink(name)  # noqa: PTH108

    def first(self, limit: int) -> bytes:
        """Read at most `limit` bytes from the beginning, independent of the file position."""
        parts = bytearray()
        while room := min(limit - len(parts), 1 << 20):
            part = os.pread(self.beginning, room, len(parts))
            if not part:
                break
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Close both descriptors, which deletes the content."""
        os.close(self.beginning)
        os.close(self.end)


def prelude() -> dict[str, Any]:
    """Return the names that a program can use without importing them."""
    names: dict[str, Any] = {}
    for module in STARS.split():
        exec(f"from {module} import *", names)  # noqa: S102
    for module in MODULES.split():
        exec(f"import {module}", names)  # noqa: S102
    return names


# In the child


def solve(
    task: dict[str, Any], code: types.CodeType, names: dict[str, Any], stdin: bytes, files: Files
) -> NoReturn:
    """Run the program on the input, then exit like a Python program."""
    os.setsid()
    message_fd, output = os.dup(files.told.end), os.dup(files.output.end)
    os.dup2(files.input.beginning, 0)
    if task["fn_name"]:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    else:
        os.dup2(output, 1)
    files.__exit__()
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
            view = memoryview(call(task, stdin, code, module))
            while view:
                view = view[os.write(output, view) :]
        else:
            exec(code, module.__dict__)  # noqa: S102
        sys.stdout.flush()
    except SystemExit:
        os.write(message_fd, b"null")
    except BaseException as error:
        os.write(message_fd, json.dumps(told_of(error)).encode())
    else:
        os.write(message_fd, b"null")
    end()


def end() -> NoReturn:
    """Do the visible part of a normal interpreter exit: wait for threads, run exit functions,
    flush.

    The costly part, taking modules apart, is skipped: it has no visible effect.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
    finally:
        os._exit(0)


def call(
    task: dict[str, Any], stdin: bytes, code: types.CodeType, module: types.ModuleType
) -> bytes:
    """Call the function with the arguments in `stdin`, and return its result as JSON."""
    arguments = [json.loads(line) for line in stdin.decode("utf-8").split("\n")]
    module.__dict__["__name__"] = "solution"
    sys.modules["solution"] = module
    exec(code, module.__dict__)  # noqa: S102
    holder = module.Solution() if "class Solution" in task["code"] else module
    returned = getattr(holder, task["fn_name"])(*arguments)
    try:
        value = plain(list(returned) if isinstance(returned, tuple) else returned)
    except Unequal:
        value = NOT_EQUAL_TO_JSON
    return json.dumps(value).encode()


def plain(value: Any) -> Any:
    """Copy a value into plain JSON types. Otherwise a subclass could define itself equal to
    anything.

    Raises Unequal: an inner tuple, a key that is not a string, or any other type.
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
    """Return the text of an exception, even when its own `__repr__` raises."""
    try:
        return repr(error)[:1000]
    except BaseException:
        return type(error).__name__


def limit(kind: int, value: int) -> None:
    """Lower a resource limit of this process permanently."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


# In the parent


def outcome(child: int, task: dict[str, Any], files: Files, began: float) -> bytes:
    """Wait for the child until its time limit, and return the reply for its test."""
    in_time = wait(child, began + task["wall_s"])
    kill_rest(child)
    _, status, used = os.wait4(child, 0)
    kill_rest(child)
    cpu_s = used.ru_utime + used.ru_stime
    output = files.output.first(task["output_bytes"] + 1)
    error: str | None = ""
    with contextlib.suppress(ValueError, RecursionError):
        error = json.loads(files.told.first(LONGEST_TOLD))
    if not in_time or cpu_s > task["cpu_s"]:
        verdict, error = "timeout", "TimeoutException()"
    elif len(output) > task["output_bytes"]:
        verdict, error, output = "output", "the output is too long", b""
    elif error is None or (error == "" and status == 0):
        verdict, error = "ended", None
    else:
        code = os.waitstatus_to_exitcode(status)
        # By none of us: by the program, or by the kernel, which may have had no memory left.
        verdict = "killed" if code == -signal.SIGKILL else "error"
        error = error or f"ended with exit code {code}"
    head = {"status": verdict, "error": error, "cpu_s": cpu_s}
    return json.dumps(head).encode() + b"\n" + output


def wait(child: int, deadline: float) -> bool:
    """Wait for the child to end; return whether it ended before `deadline`."""
    pidfd = os.pidfd_open(child)
    try:
        left_s = max(0.0, deadline - time.monotonic())
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(left_s * 1000))
    finally:
        os.close(pidfd)


def kill_rest(child: int) -> None:
    """Kill the child and all processes that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpid() == 2 and os.getppid() == 1:
            # In a process namespace of our own, where all others are its descendants.
            os.kill(-1, signal.SIGKILL)
        else:
            os.killpg(child, signal.SIGKILL)


if __name__ == "__main__":
    main()

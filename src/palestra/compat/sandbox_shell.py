"""Runs inside a sandbox: commands in a folder that lasts, and files into it and out of it.

A message is a line of JSON, and after it bytes of a file; so is its answer. This is sent to the
sandbox as source, and imports the standard library only.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from frames import Channel  # type: ignore[import-not-found]  # its neighbour, in the sandbox

Answer = tuple[dict[str, Any], bytes]


def main() -> None:
    """Do as we are told until there is nothing more."""
    channel = Channel()
    home = Path.cwd()
    # Beside ours, the python that runs us is to be found.
    os.environ["PATH"] = f"{os.environ['PATH']}:{Path(sys.executable).parent}"
    while (message := channel.receive()) is not None:
        head, _, content = message.partition(b"\n")
        order = json.loads(head)
        try:
            answer, data = _DOES[order["do"]](order, content, home)
        except OSError as error:
            answer, data = {"error": f"{error.strerror}: {order.get('path', '')}"}, b""
        channel.send(json.dumps(answer).encode() + b"\n" + data)


def _place(path: str, home: Path) -> Path:
    """Absolute paths are of the sandbox: those that it does not have are below its folder."""
    path_given = Path(path)
    if path_given.is_absolute() and path_given.is_relative_to(home):
        return path_given
    return home / path.lstrip("/")


def _run(order: dict[str, Any], _content: bytes, home: Path) -> Answer:
    folder = _place(order["cwd"], home)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(  # noqa: S603  # what it is for
            order["argv"],
            cwd=folder,
            env={**os.environ, **order["env"]},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code, timed_out = process.wait(order["timeout_s"]), False
        except subprocess.TimeoutExpired:
            code, timed_out = 124, True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        written = [_beginning(file, order["output_bytes"]) for file in (out, err)]
    # As a shell tells it.
    ending = {"exit_code": 128 - code if code < 0 else code, "timed_out": timed_out}
    return {**ending, "stdout_bytes": len(written[0])}, b"".join(written)


def _beginning(file: Any, most_bytes: int) -> bytes:
    file.seek(0)
    data: bytes = file.read(most_bytes)
    return data


def _write(order: dict[str, Any], content: bytes, home: Path) -> Answer:
    target = _place(order["path"], home)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("ab" if order["more"] else "wb") as file:
        file.write(content)
    return {}, b""


def _read(order: dict[str, Any], _content: bytes, home: Path) -> Answer:
    with _place(order["path"], home).open("rb") as file:
        file.seek(order["offset"])
        return {}, file.read(order["most"])


_DOES = {"run": _run, "write": _write, "read": _read}

if __name__ == "__main__":
    main()

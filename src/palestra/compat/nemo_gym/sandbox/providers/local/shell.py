"""The program inside a sandbox: it runs commands in a lasting folder, and reads and writes files.

A message is a line of JSON followed by the bytes of a file; a response has the same form. The
source of this module is sent to the sandbox, so it imports only the standard library.
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
    """Carry out orders from the channel until it closes."""
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
            path = order.get("path") or error.filename or ""
            answer, data = {"error": f"{error.strerror}: {path}", "errno": error.errno}, b""
        channel.send(json.dumps(answer).encode() + b"\n" + data)


def _path_below(path: str, home: Path) -> Path:
    """Return where `path` lies: an absolute path inside `home` is kept, any other is put below
    `home`.
    """
    path_given = Path(path)
    if path_given.is_absolute() and path_given.is_relative_to(home):
        return path_given
    return home / path.lstrip("/")


def _run(order: dict[str, Any], _content: bytes, home: Path) -> Answer:
    folder = _path_below(order["cwd"], home)
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
        sizes = {"stdout": os.fstat(out.fileno()).st_size, "stderr": os.fstat(err.fileno()).st_size}
    ending = {
        # As a shell tells it.
        "exit_code": 128 - code if code < 0 else code,
        "timed_out": timed_out,
        "stdout_bytes": len(written[0]),
        "cut": {name: size for name, size in sizes.items() if size > order["output_bytes"]},
    }
    return ending, b"".join(written)


def _beginning(file: Any, most_bytes: int) -> bytes:
    file.seek(0)
    data: bytes = file.read(most_bytes)
    return data


def _write(order: dict[str, Any], content: bytes, home: Path) -> Answer:
    target = _path_below(order["path"], home)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("ab" if order["more"] else "wb") as file:
        file.write(content)
    return {}, b""


def _read_file(order: dict[str, Any], _content: bytes, home: Path) -> Answer:
    with _path_below(order["path"], home).open("rb") as file:
        file.seek(order["offset"])
        return {}, file.read(order["most"])


_DOES = {"run": _run, "write": _write, "read": _read_file}

if __name__ == "__main__":
    main()

"""Keeps one inference server: starts it, and ends it when whoever wanted it is gone.

Reads its order, one line of JSON, from standard input, and lives as long as that input stays
open. Then everything in its process group is asked to end, and after some seconds made to: an
inference server starts processes of its own, and each holds gigabytes.

Run as a file, and importing nothing of ours.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

GRACE_S = 5.0


def main() -> int:
    """The exit code is the server's; 128 and the signal's number when one ended it."""
    line = sys.stdin.buffer.readline()
    if not line.strip():
        return 0
    order = json.loads(line)
    # A signal to the group reaches us too: we stay until the server is gone.
    signal.signal(signal.SIGTERM, _stay)
    server = subprocess.Popen(  # noqa: S603  # the command we were ordered to run
        order["command"], env={**os.environ, **order["environment"]}, stdin=subprocess.DEVNULL
    )
    threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    code = server.wait()
    return 128 - code if code < 0 else code


def _stay(_number: int, _frame: FrameType | None) -> None:
    """Unlike an ignored signal, a handled one is not handed on to the server."""


def _end_with_parent(server: "subprocess.Popen[bytes]") -> None:
    # Not through the buffered file, whose lock this thread would hold at our end.
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(GRACE_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())

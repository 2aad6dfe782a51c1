"""A parent process for one inference server: it starts the server, and ends it when Palestra's
process ends.

It reads its order, one line of JSON, from standard input. When standard input closes, it sends
SIGTERM to its process group, and SIGKILL after some seconds: an inference server starts processes
of its own, and each holds gigabytes.

It is run as a file and imports nothing of Palestra.
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
    """Start the server, wait until it ends, and return its exit code, or 128 plus the signal's
    number.
    """
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
    """Do nothing on SIGTERM. A handler is used because the server would inherit an ignored signal."""


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

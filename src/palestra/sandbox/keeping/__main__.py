"""The launcher: forks a keeper for every control socket that it is handed, until we are gone."""

import os
import signal
import socket
import sys

from palestra.sandbox.keeping.keep import keep


def main(fd: int) -> None:
    """Serve the socket at `fd`. Its parent does not wait for it: it ends when the socket closes."""
    if os.fork():
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=fd)
    while True:
        data, fds, _, _ = socket.recv_fds(requests, 1, 4, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return
        # fds: the control socket, and a conversation's other end when there is one
        try:
            child = os.fork()
        except OSError:
            child = -1
        if child == 0:
            requests.close()
            _keep(fds)
        for received in fds:
            os.close(received)


def _keep(fds: list[int]) -> None:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with socket.socket(fileno=fds[0]) as control:
            keep(control, fds[1] if len(fds) > 1 else None)
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))

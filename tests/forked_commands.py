"""Console scripts of this environment, each in a process that is forked off one that imported them.

A started command spends most of a second on imports. A fork has a process id, file descriptors,
environment, working folder, signals and exit code of its own, as a started command has; only its
modules are there already. What is tested of imports themselves starts a command instead.
"""

import gc
import importlib
import importlib.metadata
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LARGEST_ORDER = 200_000
"""Bytes that one message of a Unix socket may have: arguments and environment."""


@dataclass
class ForkedCommands:
    """The process that commands are forked off; it ends with the one that made it."""

    _orders: socket.socket | None = field(default=None, repr=False)
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def close(self) -> None:
        """End the process that commands are forked off."""
        if self._orders is not None and self._process is not None:
            self._orders.close()
            self._process.wait(timeout=10)

    def run(
        self,
        command: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a console script to its end, as `subprocess.run` does with its output captured.

        Raises:
            subprocess.TimeoutExpired: it took longer than `timeout_s`, and was killed.

        """
        order = {"command": command, "arguments": [*arguments], "cwd": str(cwd), "env": {**env}}
        ours, theirs = socket.socketpair()
        with ours, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with theirs:
                descriptors = [out.fileno(), err.fileno(), theirs.fileno()]
                socket.send_fds(self._started(), [json.dumps(order).encode()], descriptors)
            process_id = int(_line(ours))
            ours.settimeout(timeout_s)
            try:
                code = int(_line(ours))
            except TimeoutError:
                os.kill(process_id, signal.SIGKILL)
                raise subprocess.TimeoutExpired([command, *arguments], timeout_s) from None
            return subprocess.CompletedProcess(
                [command, *arguments], code, stdout=_text(out), stderr=_text(err)
            )

    def _started(self) -> socket.socket:
        if self._orders is None:
            self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, __file__, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
        return self._orders


def _line(stream: socket.socket) -> str:
    text = b""
    while not text.endswith(b"\n"):
        if not (byte := stream.recv(1)):
            raise RuntimeError("the process that commands are forked off has ended")
        text += byte
    return text.decode()


def _text(file: "tempfile._TemporaryFileWrapper[bytes]") -> str:
    file.seek(0)
    return file.read().decode()


def _import_commands() -> None:
    package = importlib.import_module("palestra.cli")
    for module in pkgutil.walk_packages(package.__path__, "palestra.cli."):
        importlib.import_module(module.name)


def _next_command(orders: socket.socket) -> Callable[[], object]:
    """The console script of the next order, in a process forked for it."""
    selector = selectors.DefaultSelector()
    selector.register(orders, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is orders:
                message, descriptors, _, _ = socket.recv_fds(orders, LARGEST_ORDER, 3)
                if not message:
                    os._exit(0)
                process_id = os.fork()
                if process_id == 0:
                    selector.close()
                    orders.close()
                    return _as_started(json.loads(message), descriptors)
                out, err, answers = descriptors
                os.close(out)
                os.close(err)
                os.write(answers, b"%d\n" % process_id)
                watched = os.pidfd_open(process_id)
                selector.register(watched, selectors.EVENT_READ, (process_id, answers))
            else:
                process_id, answers = key.data
                _, status = os.waitpid(process_id, 0)
                os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))
                selector.unregister(key.fd)
                os.close(key.fd)
                os.close(answers)


def _as_started(order: Mapping[str, object], descriptors: Sequence[int]) -> Callable[[], object]:
    """Give this process what a started one has; the console script that it is to run."""
    out, err, answers = descriptors
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in (out, err, answers):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(str(order["cwd"]))
    command = str(order["command"])
    # As a starting interpreter puts them: after the folder of the script.
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = [str(Path(sys.executable).with_name(command)), *order["arguments"]]
    (script,) = importlib.metadata.entry_points(group="console_scripts", name=command)
    return script.load()


def _serve(descriptor: int) -> None:
    sys.path.pop(0)  # the folder of this file, which no command sees
    _import_commands()
    gc.freeze()
    with socket.socket(fileno=descriptor) as orders:
        command = _next_command(orders)
    sys.exit(command())


if __name__ == "__main__":
    _serve(int(sys.argv[1]))

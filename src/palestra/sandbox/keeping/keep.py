"""Carry out one run, from its order to its outcome: start the program, watch it, and remove
everything that it leaves.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from palestra.sandbox.keeping import folder, tree
from palestra.sandbox.keeping.cgroups import OomKills
from palestra.sandbox.keeping.meter import Meter, Use
from palestra.sandbox.keeping.order import (
    BLOCK_FD,
    FILES_FD,
    SECCOMP_FD,
    STATUS_FD,
    RunOrder,
    RunOutcome,
    decoded,
)
from palestra.sandbox.keeping.spawn import NotStarted, readable, spawn

LENGTH = struct.Struct(">I")
LONGEST = 1 << 30


class StreamClosed(Exception):
    """The other side has closed the connection."""


def send(sock: socket.socket, *frames: bytes) -> None:
    """Send frames. Raises OSError when the other side is gone."""
    for frame in frames:
        sock.sendall(LENGTH.pack(len(frame)))
        sock.sendall(frame)


def receive(sock: socket.socket) -> bytes:
    """Return the next frame. Raises `StreamClosed` when the connection is closed."""
    (length,) = LENGTH.unpack(_exactly(sock, LENGTH.size))
    return _exactly(sock, length)


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise StreamClosed
        parts += part
    return bytes(parts)


WRITABLE = ("tmp", "dev/shm")


class MadeFiles:
    """Counts the files that a program creates. Empty files use memory too, and no kernel limit
    counts them.
    """

    def __init__(self) -> None:
        ours = [Path("/"), *(Path("/", folder) for folder in WRITABLE)]
        self._our_devices = {folder.stat().st_dev for folder in ours if folder.exists()}

    def count(self, pid: int) -> int:
        """Return the number of files in all writable folders of the isolated process `pid`."""
        return sum(self._count_in(f"/proc/{pid}/root/{folder}") for folder in WRITABLE)

    def _count_in(self, folder: str) -> int:
        with contextlib.suppress(OSError):
            # Until it has got its own root, which may be later than now, it is in ours.
            if Path(folder).stat().st_dev not in self._our_devices:
                space = os.statvfs(folder)
                return space.f_files - space.f_ffree
        return 0


LOOK_EVERY_S = 0.05
SET_UP_WITHIN_S = 60.0
REPORT_WITHIN_S = 60.0
PR_SET_CHILD_SUBREAPER = 36
READ_BYTES = 1 << 16
MOST_STARVED = 10
"""A program is stopped after this many times its time limit, however busy the machine is."""


KILLED = 128 + signal.SIGKILL
NO_MEMORY = (
    "the machine ran out of memory while the program ran, and the kernel killed it: run fewer at "
    "once, lower memory_mib, or give it more memory"
)


class NoVerdict(Exception):
    """The run failed for a reason outside the program: something that it needed was missing."""


def keep(control: socket.socket, channel: int | None, directory: str) -> None:
    """Receive an order on `control`, run it, and send its outcome and output.

    `channel`: in a conversation, the descriptor for the program's standard input and output.
    `directory`: the path of the folder to create for a program without isolation.
    """
    try:
        order = decoded(receive(control))
        stdin, refused_calls = receive(control), receive(control)
        contents = [receive(control) for _ in order.files]
    except (StreamClosed, OSError):
        return
    out = err = b""
    try:
        with _Run(order, control, channel, directory) as run:
            outcome = run.carry_out(stdin, refused_calls, contents)
            out, err = bytes(run.out), bytes(run.err)
    except NotStarted as error:
        outcome = RunOutcome(failure=str(error), not_executable=error.by_command)
    except (NoVerdict, tree.Unreadable, OSError) as error:
        outcome = RunOutcome(failure=str(error) or type(error).__name__)
    control.settimeout(REPORT_WITHIN_S)
    with contextlib.suppress(OSError):
        send(control, outcome.encoded(), out, err)


class _Run:
    def __init__(
        self, order: RunOrder, control: socket.socket, channel: int | None, directory: str
    ) -> None:
        self._order = order
        self._bounds = order.bounds
        self._control = control
        self._channel = channel
        self._open: list[int] = []
        self._directory = None if order.isolated else directory
        self._innermost: int | None = None
        """First process of the program's own process namespace: with it, all others end."""
        self._made = MadeFiles()
        self._stopped_by = ""
        self._child: int | None = None
        self._meter = Meter(order.bounds.memory_bytes)
        self._oom_kills = OomKills()
        self._outputs: dict[int, bytearray] = {}
        self.out = bytearray()
        self.err = bytearray()

    def __enter__(self) -> Self:
        # Processes that leave their parent become ours, not the init process's.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        tree.check()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end_tree()
        for fd in self._open:
            os.close(fd)
        if self._directory is not None:
            folder.remove(self._directory)

    def carry_out(self, stdin: bytes, refused_calls: bytes, contents: list[bytes]) -> RunOutcome:
        """Start the program, watch it to its end, and return how it ended.

        `refused_calls`: a filter of system calls, for an isolated program. Raises `NoVerdict`,
        `NotStarted`, `Unreadable`, and OSError when the machine refuses an operation.
        """
        wiring = self._wiring(stdin, contents)
        if refused_calls:
            wiring[SECCOMP_FD] = self._hold(readable(refused_calls))
        status, release = self._barrier(wiring) if self._order.isolated else (-1, -1)
        if self._directory is not None:
            folder.make(self._directory, zip(self._order.files, contents, strict=True))
        child = self._child = spawn(self._order, wiring, self._directory)
        self._close(wiring.values())
        if self._order.isolated:
            self._let_go(status, release)
        began = time.monotonic()
        code = self._watch(child, began)
        wall_s = time.monotonic() - began
        if not self._end_tree():
            raise NoVerdict("processes of the program are still there")
        self._drain()
        machine_full = self._oom_kills.any()
        if self._order.isolated and not self._stopped_by:
            code = self._told_exit_code(status)
        cpu_s = self._meter.cpu_s()
        if not self._stopped_by and cpu_s > self._bounds.cpu_s:
            self._stopped_by = "cpu"
        if not self._stopped_by and machine_full and code == KILLED:
            raise NoVerdict(NO_MEMORY)
        return RunOutcome(
            exit_code=code,
            stopped_by=self._stopped_by,
            cpu_s=cpu_s,
            wall_s=wall_s,
            peak_memory_bytes=max(self._meter.peak_bytes, tree.reaped_peak_bytes()),
            machine_full=machine_full,
        )

    # Before the program runs

    def _wiring(self, stdin: bytes, contents: list[bytes]) -> dict[int, int]:
        err, err_in = self._pipe()
        self._outputs = {err: self.err}
        if self._channel is None:
            out, out_in = self._pipe()
            self._outputs[out] = self.out
            wiring = {0: self._hold(readable(stdin)), 1: out_in, 2: err_in}
        else:
            wiring = {0: self._hold(self._channel), 1: self._channel, 2: err_in}
        if self._order.isolated:
            for number, content in enumerate(contents):
                wiring[FILES_FD + number] = self._hold(readable(content))
        return wiring

    def _barrier(self, wiring: dict[int, int]) -> tuple[int, int]:
        """Create two pipes to the isolating command, and return our ends: one to read its status,
        one to let it continue.
        """
        status, wiring[STATUS_FD] = self._pipe()
        wiring[BLOCK_FD], release = self._pipe()
        return status, release

    def _let_go(self, status: int, release: int) -> None:
        """Limit the number of the isolated program's processes, then let it run."""
        line = self._status_line(status)
        try:
            self._innermost = int(json.loads(line)["child-pid"])
            # One more than the program's own: the first process of its namespace.
            processes = self._bounds.processes + 1
            limits = (processes, processes)
            resource.prlimit(self._innermost, resource.RLIMIT_NPROC, limits)
        except (ValueError, KeyError, ProcessLookupError):
            raise NoVerdict(f"no program was started: {self._complaint()}") from None
        os.write(release, b"\n")

    def _status_line(self, status: int) -> bytes:
        deadline = time.monotonic() + SET_UP_WITHIN_S
        poll = select.poll()
        poll.register(status, select.POLLIN)
        line = b""
        while not line.endswith(b"\n"):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                raise NoVerdict(f"no program was started within {SET_UP_WITHIN_S:.0f} s")
            part = os.read(status, 1)
            if not part:
                break
            line += part
        return line

    # While it runs

    def _watch(self, child: int, began: float) -> int:
        """Wait until the program has ended or reached a limit, and return its exit code."""
        child_end = self._hold(os.pidfd_open(child))
        poll = select.poll()
        poll.register(child_end, select.POLLIN)
        poll.register(self._control, select.POLLIN | select.POLLRDHUP)
        for fd in self._outputs:
            os.set_blocking(fd, False)
            poll.register(fd, select.POLLIN)
        look_at = began + LOOK_EVERY_S
        while not self._stopped_by:
            now = time.monotonic()
            if now >= look_at:
                look_at = now + LOOK_EVERY_S
                self._check_limits(now - began)
                continue
            ready = dict(poll.poll(max(1, (look_at - now) * 1000)))
            for fd in ready.keys() & self._outputs.keys():
                if not self._read_output(fd):
                    poll.unregister(fd)
            if child_end in ready:
                break
            if self._control.fileno() in ready:
                self._stopped_by = self._stopped_by or "us"
        if self._stopped_by:
            self._measure()  # the time of what is killed is nobody's afterwards
            self._end_tree()
            return KILLED
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _read_output(self, fd: int) -> bool:
        """Read the output that is available; False at its end. The program is stopped when it
        writes more than its limit.
        """
        output = self._outputs[fd]
        try:
            part = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return True
        room = self._bounds.output_bytes - len(output)
        output += part[:room]
        if len(part) > room:
            self._stopped_by = self._stopped_by or "output"
        return bool(part)

    def _check_limits(self, elapsed_s: float) -> None:
        """Stop the program when its tree exceeds a limit."""
        bounds = self._bounds
        use = self._measure()
        if use.memory_bytes > bounds.memory_bytes:
            self._stopped_by = "memory"
        elif use.cpu_s > bounds.cpu_s:
            self._stopped_by = "cpu"
        elif elapsed_s > bounds.wall_s and self._took(elapsed_s) > bounds.wall_s:
            self._stopped_by = "wall"
        elif not self._order.isolated and use.processes > bounds.processes:
            self._stopped_by = "processes"  # isolated, the kernel refuses one more
        elif self._innermost and self._made.count(self._innermost) > bounds.tmp_files:
            self._stopped_by = "files"

    def _took(self, elapsed_s: float) -> float:
        """Return the program's time, without the time in which it was ready to run and a busy
        machine had no processor for it.
        """
        if elapsed_s > MOST_STARVED * self._bounds.wall_s:
            return elapsed_s
        return elapsed_s - tree.starved_s(tree.descendants(os.getpid()))

    def _measure(self) -> Use:
        return self._meter.look(tree.descendants(os.getpid()))

    # When it is over

    def _end_tree(self) -> bool:
        """Kill the processes that are left. False when some cannot be killed."""
        if self._innermost is not None:
            # The kernel ends a whole process namespace with its first process.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self._innermost in tree.descendants(os.getpid()):
                    os.kill(self._innermost, signal.SIGKILL)
            self._wait_for_isolation()
        elif self._child is not None and not self._order.isolated:
            # At once all that stayed in its group: forking faster than we kill does not help them.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child, signal.SIGKILL)
        return tree.kill_all(os.getpid())

    def _wait_for_isolation(self) -> None:
        """Give the isolating command up to a second to reap its processes, so that their CPU time
        is counted.
        """
        deadline = time.monotonic() + 1.0
        while tree.descendants(os.getpid()) and time.monotonic() < deadline:
            tree.reap()
            time.sleep(0.001)

    def _drain(self) -> None:
        """Read the program's last output."""
        for fd in self._outputs:
            before = -1
            while len(self._outputs[fd]) != before and not self._stopped_by:
                before = len(self._outputs[fd])
                self._read_output(fd)

    def _told_exit_code(self, status: int) -> int:
        status_text = os.read(status, READ_BYTES)
        for line in status_text.splitlines():
            with contextlib.suppress(ValueError, KeyError):
                return int(json.loads(line)["exit-code"])
        if self._oom_kills.any():
            raise NoVerdict(NO_MEMORY)
        raise NoVerdict(f"the program was not started: {self._complaint()}")

    def _complaint(self) -> str:
        self._end_tree()
        self._drain()
        return self.err.decode(errors="replace").strip()[-500:] or "no reason given"

    # Descriptors

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe2(os.O_CLOEXEC)
        self._open += ends
        return ends

    def _hold(self, fd: int) -> int:
        self._open.append(fd)
        return fd

    def _close(self, fds: Iterable[int]) -> None:
        """Close our copies of the program's descriptors, so that its pipes close when the program
        ends.
        """
        for fd in set(fds):
            self._open.remove(fd)
            os.close(fd)

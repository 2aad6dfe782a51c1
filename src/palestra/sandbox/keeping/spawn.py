"""Start the program of one run: set its descriptors, its resource limits and its working folder."""

import contextlib
import ctypes
import errno
import fcntl
import itertools
import os
import resource
import signal
from collections.abc import Mapping
from typing import NoReturn

from palestra.sandbox.keeping.order import Bounds, RunOrder

PR_SET_PDEATHSIG = 1
ABOVE_ALL_TARGETS = 200
ADDRESS_SLACK_BYTES = 1 << 30
"""Address space beyond the memory limit, for libraries and thread stacks that are reserved but not
used."""

THREAD_STACK_BYTES = 8 << 20
"""The stack that the C library reserves for each thread. The main thread has as much until it
requests more."""

STACK_BYTES = 256 << 20
"""The largest stack that a program may request with RLIMIT_STACK. Deep recursion of its main thread
needs it."""

OPEN_FILES = 128


OF_THE_COMMAND = frozenset(
    {
        errno.E2BIG,
        errno.EACCES,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOEXEC,
        errno.ENOTDIR,
    }
)
"""Error numbers that mean that this command cannot be executed, while others could."""


class NotStarted(Exception):
    """The command could not be executed. The text contains the reason.

    `by_command`: the command is the cause, not a lack of resources on the machine.
    """

    def __init__(self, complaint: str, *, by_command: bool) -> None:
        super().__init__(complaint)
        self.by_command = by_command


def readable(content: bytes) -> int:
    """Return a descriptor from which `content` can be read, and which cannot be written."""
    written = os.memfd_create("palestra", os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(written, view) :]
        return os.open(f"/proc/self/fd/{written}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(written)


def spawn(order: RunOrder, wiring: Mapping[int, int], directory: str | None) -> int:
    """Start the command; descriptor `wiring[n]` becomes the program's descriptor n. Return its
    process id.

    Raises `NotStarted` when the command cannot be executed, and OSError when no process can be
    created.
    """
    complaint_reader, complaint_writer = os.pipe2(os.O_CLOEXEC)
    try:
        child = os.fork()
        if child == 0:
            _become(order, wiring, directory, complaint_writer)
        os.close(complaint_writer)
        with os.fdopen(complaint_reader, "rb", closefd=False) as complaints:
            complaint = complaints.read().decode(errors="replace")
    finally:
        os.close(complaint_reader)
    if complaint:
        os.waitpid(child, 0)
        number, _, text = complaint.partition(" ")
        raise NotStarted(text, by_command=_is_of_the_command(int(number), isolated=order.isolated))
    return child


def _is_of_the_command(number: int, *, isolated: bool) -> bool:
    """Whether the command caused the error `number`. With isolation only E2BIG counts: the executed
    command is then the isolating one, which is known to exist.
    """
    return number in OF_THE_COMMAND and (number == errno.E2BIG or not isolated)


def _become(
    order: RunOrder, wiring: Mapping[int, int], directory: str | None, complain: int
) -> NoReturn:
    try:
        os.setsid()
        # Should the keeper be killed, the program goes with it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        complain = fcntl.fcntl(complain, fcntl.F_DUPFD_CLOEXEC, ABOVE_ALL_TARGETS)
        # copied out of the way first: one's target may be another's source
        copies = {
            target: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, ABOVE_ALL_TARGETS)
            for target, source in wiring.items()
        }
        for target, copy in copies.items():
            os.dup2(copy, target, inheritable=True)
        _close_all_but({complain, *wiring})
        _sacrifice_first()
        if directory is not None:
            os.chdir(directory)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and so would it
            signal.signal(number, signal.SIG_DFL)
        for kind, value in _resource_limits(order.bounds).items():
            _lower(kind, value)
        _, hard = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (_least(THREAD_STACK_BYTES, hard), hard))
        os.execvpe(order.argv[0], order.argv, order.env)  # noqa: S606
    except BaseException as error:
        cause = error.errno if isinstance(error, OSError) else 0
        os.write(complain, f"{cause or 0} {order.argv[0]}: {error}".encode(errors="replace"))
    finally:
        os._exit(127)


def _close_all_but(kept_descriptors: set[int]) -> None:
    """Close all other descriptors, so that the program inherits none of ours, whatever flags they
    have.
    """
    edges = [-1, *sorted(kept_descriptors), resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
    for below, above in itertools.pairwise(edges):
        if above - below > 1:  # an empty range from 0 on closes everything
            os.closerange(below + 1, above)


def _sacrifice_first() -> None:
    """Make the kernel kill the program first, and not its verifier, when the machine has no memory
    left.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb") as score:  # noqa: PTH123
        score.write(b"1000")


def _resource_limits(bounds: Bounds) -> dict[int, int]:
    return {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 64 << 10,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_FSIZE: bounds.file_bytes,
        resource.RLIMIT_STACK: STACK_BYTES,
        resource.RLIMIT_AS: bounds.memory_bytes + ADDRESS_SLACK_BYTES,
        # The keeper counts the whole tree; this is for the moment in which it does not look.
        resource.RLIMIT_CPU: int(bounds.cpu_s) + 2,
    }


def _lower(kind: int, value: int) -> None:
    value = _least(value, resource.getrlimit(kind)[1])
    resource.setrlimit(kind, (value, value))


def _least(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)

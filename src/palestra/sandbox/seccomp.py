"""A kernel filter that refuses system calls which no program in the sandbox needs.

The namespaces already isolate a program. The filter also blocks the parts of the kernel through
which programs have escaped from namespaces, sockets of families that namespaces do not cover (for
example VSOCK), and memory that no limit counts.
"""

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from typing import Final

# Classic BPF, as in <linux/filter.h> and <linux/seccomp.h>.
_LOAD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24

_AF_UNIX: Final = 1
_SIGCHLD: Final = 17
_NEW_NAMESPACES: Final = 0x7E020080
"""The flags CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, and NEWTIME."""

_X32_CALLS: Final = 0x40000000
"""The first call number of the x32 interface on x86-64."""

# Numbers from 424 on are the same everywhere.
_NEWER = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443, 447)
"""Numbers of io_uring_*, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, pidfd_getfd,
mount_setattr, quotactl_fd, memfd_secret."""

_CLONE3: Final = 435

_X86_64: Final[Mapping[str, int]] = {
    "acct": 163, "add_key": 248, "adjtimex": 159, "bpf": 321, "chroot": 161,
    "clock_adjtime": 305, "clock_settime": 227, "delete_module": 176, "fanotify_init": 300,
    "finit_module": 313, "init_module": 175, "ioperm": 173, "iopl": 172, "kcmp": 312,
    "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250, "lookup_dcookie": 212,
    "mbind": 237, "memfd_create": 319, "migrate_pages": 256, "modify_ldt": 154, "mount": 165,
    "move_pages": 279, "mq_open": 240, "msgget": 68, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "perf_event_open": 298, "personality": 135, "pivot_root": 155,
    "process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101, "quotactl": 179,
    "reboot": 169, "request_key": 249, "semget": 64, "set_mempolicy": 238,
    "setdomainname": 171, "sethostname": 170, "setns": 308, "settimeofday": 164,
    "shmat": 30, "shmget": 29, "swapoff": 168, "swapon": 167, "syslog": 103, "umount2": 166,
    "unshare": 272, "userfaultfd": 323, "vhangup": 153,
}  # fmt: skip

_AARCH64: Final[Mapping[str, int]] = {
    "acct": 89, "add_key": 217, "adjtimex": 171, "bpf": 280, "chroot": 51,
    "clock_adjtime": 266, "clock_settime": 112, "delete_module": 106, "fanotify_init": 262,
    "finit_module": 273, "init_module": 105, "kcmp": 272, "kexec_file_load": 294,
    "kexec_load": 104, "keyctl": 219, "lookup_dcookie": 18, "mbind": 235, "memfd_create": 279,
    "migrate_pages": 238, "mount": 40, "move_pages": 239, "mq_open": 180, "msgget": 186,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "perf_event_open": 241,
    "personality": 92, "pivot_root": 41, "process_vm_readv": 270, "process_vm_writev": 271,
    "ptrace": 117, "quotactl": 60, "reboot": 142, "request_key": 218, "semget": 190,
    "set_mempolicy": 237, "setdomainname": 162, "sethostname": 161, "setns": 268,
    "settimeofday": 170, "shmat": 196, "shmget": 194, "swapoff": 225, "swapon": 224,
    "syslog": 116, "umount2": 39, "unshare": 97, "userfaultfd": 282, "vhangup": 58,
}  # fmt: skip

_MACHINES: Final = {
    # its code in the kernel, its refused calls, socket, clone, rt_sigaction
    "x86_64": (0xC000003E, _X86_64, 41, 56, 13),
    "aarch64": (0xC00000B7, _AARCH64, 198, 220, 134),
}


def seccomp_filter(machine: str = platform.machine()) -> bytes:
    """Return the filter for this type of machine, in bubblewrap's format; empty when no filter
    exists for it.
    """
    if machine not in _MACHINES:
        return b""
    code, refused, socket, clone, sigaction = _MACHINES[machine]
    instructions = [
        _step(_LOAD, _MACHINE_AT),
        _step(_JUMP_EQUAL, code, on_yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        *_refuse(_JUMP_AT_LEAST, _X32_CALLS, errno.ENOSYS) * (machine == "x86_64"),
        # The C library then uses clone, whose flags a filter can see.
        *_refuse(_JUMP_EQUAL, _CLONE3, errno.ENOSYS),
        *_each_refused((*refused.values(), *_NEWER)),
        *_looked_at(socket, _JUMP_EQUAL, _AF_UNIX, yes=_ALLOW, no=_ERRNO | errno.EAFNOSUPPORT),
        *_looked_at(clone, _JUMP_ANY_BIT, _NEW_NAMESPACES, yes=_ERRNO | errno.EPERM, no=_ALLOW),
        *_children_are_waited_for(sigaction),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(instructions)


def _step(code: int, value: int, *, on_yes: int = 0, on_no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, on_yes, on_no, value)


def _refuse(test: int, value: int, error: int) -> list[bytes]:
    return [_step(test, value, on_no=1), _step(_RETURN, _ERRNO | error)]


def _each_refused(numbers: tuple[int, ...]) -> Iterator[bytes]:
    for number in numbers:
        yield from _refuse(_JUMP_EQUAL, number, errno.EPERM)


def _children_are_waited_for(sigaction: int) -> list[bytes]:
    """Refuse to change the handling of SIGCHLD. Reading it is allowed.

    When a program ignores SIGCHLD, the kernel does not count the CPU time of its children.
    """
    return [
        _step(_JUMP_EQUAL, sigaction, on_no=8),
        _step(_LOAD, _FIRST_ARGUMENT_AT),
        _step(_JUMP_EQUAL, _SIGCHLD, on_no=5),
        _step(_LOAD, _SECOND_ARGUMENT_AT),  # a pointer, in two halves
        _step(_JUMP_EQUAL, 0, on_no=2),
        _step(_LOAD, _SECOND_ARGUMENT_AT + 4),
        _step(_JUMP_EQUAL, 0, on_yes=1),
        _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
    ]


def _looked_at(number: int, test: int, value: int, *, yes: int, no: int) -> list[bytes]:
    """Return instructions that allow or refuse a call by its first argument."""
    return [
        _step(_JUMP_EQUAL, number, on_no=4),
        _step(_LOAD, _FIRST_ARGUMENT_AT),
        _step(test, value, on_no=1),
        _step(_RETURN, yes),
        _step(_RETURN, no),
    ]

"""The bubblewrap command line of a program, and which methods of isolation this machine permits.

An isolated program sees an empty root with the system's libraries and Python, all read-only. It has
its own /tmp in memory, a few harmless devices, no /proc, no network except its own loopback
interface, no other processes, and no capabilities. If we are root, the program's user id belongs to
no user of the machine. Otherwise the program runs as our own user, who has no rights inside.
"""

import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from palestra.sandbox.keeping.order import BLOCK_FD, FILES_FD, SECCOMP_FD, STATUS_FD
from palestra.sandbox.limits import MIB
from palestra.sandbox.program import ENVIRONMENT, PYTHON, Program

_CAPABILITIES: Final = {
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SETPCAP": 8,
    "CAP_NET_ADMIN": 12,
    "CAP_SYS_ADMIN": 21,
}
HOME: Final = "/tmp"  # noqa: S108 - the program's own, in memory
SHARED_MEMORY_BYTES: Final = 16 * MIB
PACKAGE: Final = str(Path(__file__).parents[1])
_LIBRARIES: Final = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64")
_EXTRAS: Final = ("/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache")


class IsolationMethod(StrEnum):
    """How a program is isolated, and as which user it runs."""

    ROOT = "root"
    """We are root. bubblewrap runs as root, and `setpriv` gives up its rights before the program
    starts. The program's user owns nothing."""

    USER_NAMESPACE = "user namespace"
    """We are an ordinary user. bubblewrap gets its rights in a user namespace. The program's user
    is ours, with another id."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What isolation needs: the executables, and the paths that a program may read."""

    bwrap: str
    setpriv: str
    way: IsolationMethod
    python: str
    readable: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    """Folders inside the readable paths that appear empty to programs."""


def find_tools(
    python: str,
    read_only: Iterable[str],
    *,
    as_root: bool | None = None,
    status: Path = Path("/proc/self/status"),
) -> Tools | str:
    """Return the isolation tools of this machine, or a text with what is missing."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "bubblewrap is not installed (no bwrap on the PATH)"
    root = is_root() if as_root is None else as_root
    setpriv = shutil.which("setpriv") or ""
    if root and not setpriv:
        return "setpriv is not installed, and programs must not run as root"
    if root and (missing := missing_capabilities(status)):
        # Not in a user namespace instead: the kernel limits the processes of any user but root.
        return f"this is root without {', '.join(missing)}, as in a container: be an ordinary user"
    return Tools(
        bwrap=bwrap,
        setpriv=setpriv,
        way=IsolationMethod.ROOT if root else IsolationMethod.USER_NAMESPACE,
        python=python,
        readable=(*python_paths(python), *read_only),
        # Beside Python's packages, where we are installed: with tasks and their right answers.
        hidden=(PACKAGE,),
    )


def is_root() -> bool:
    """Whether this process runs as the machine's root, and not as root of a container that an
    ordinary user started.
    """
    try:
        own_range = Path("/proc/self/uid_map").read_text().split()
    except OSError:
        own_range = []
    return os.geteuid() == 0 and own_range[:2] in ([], ["0", "0"])


def missing_capabilities(status: Path) -> list[str]:
    """Return the capabilities that isolation as root needs and this process does not have."""
    try:
        lines = status.read_text("ascii").splitlines()
        capability_bits = next(
            int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")
        )
    except (OSError, ValueError, StopIteration):
        return []  # a real run will tell
    return [name for name, number in _CAPABILITIES.items() if not capability_bits >> number & 1]


def python_paths(python: str) -> tuple[str, ...]:
    """Return the paths that a Python interpreter reads: itself, its library, and its virtual
    environment's library.
    """
    prefixes = {Path(python).parent.parent, Path(python).resolve().parent.parent}
    if python == sys.executable:
        prefixes |= {Path(sys.prefix), Path(sys.base_prefix)}
    interpreters = [Path(python), Path(python).resolve()]
    for prefix in sorted(prefixes):
        interpreters += [prefix / "pyvenv.cfg", prefix / "lib", prefix / "lib64"]
    return tuple(
        str(path) for path in interpreters if path.exists() and not _is_link_to_sibling(path)
    )


def _is_link_to_sibling(path: Path) -> bool:
    return path.name == "lib64" and path.is_symlink()


def command_line(
    tools: Tools,
    program: Program,
    *,
    tmp_mib: int,
    seccomp: bool,
    user: int | None = None,
) -> tuple[str, ...]:
    """Return the bubblewrap command for a program.

    The descriptor numbers are the constants of `palestra.sandbox.keeping.order`. `user`: the user
    id of the program when we are root; by default a random id that no user has.
    """
    inner: list[str] = list(program.argv)
    if inner[0] == PYTHON:
        inner[0] = tools.python
    if tools.way is IsolationMethod.ROOT:
        # Far above the users of any machine, and another one each time: limits that the kernel
        # counts by user are then the program's own.
        number = str((0x70000000 | secrets.randbits(27)) if user is None else user)
        keep_none = ("--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
        inner = [tools.setpriv, "--reuid", number, "--regid", number, *keep_none, "--", *inner]
    return (tools.bwrap, *_options(tools, program, tmp_mib, seccomp=seccomp), "--", *inner)


def _options(tools: Tools, program: Program, tmp_mib: int, *, seccomp: bool) -> Iterator[str]:
    yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--hostname", "sandbox", "--new-session")
    yield from ("--die-with-parent", "--cap-drop", "ALL")
    if tools.way is IsolationMethod.ROOT:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            yield from ("--cap-add", capability)
    else:
        yield from ("--unshare-user", "--uid", "1000", "--gid", "1000")
    yield from ("--json-status-fd", str(STATUS_FD), "--block-fd", str(BLOCK_FD))
    if seccomp:
        yield from ("--seccomp", str(SECCOMP_FD))
    # Before what may lie below it: a virtual environment in /tmp is still to be seen.
    yield from _memory(HOME, tmp_mib * MIB)
    yield from _root(tools)
    yield from ("--dev", "/dev", *_memory("/dev/shm", SHARED_MEMORY_BYTES))  # noqa: S108
    yield from ("--remount-ro", "/dev")
    yield from _files(program)
    yield from ("--remount-ro", "/", "--chdir", HOME, "--clearenv")
    for name, value in {**ENVIRONMENT, "HOME": HOME, **program.env}.items():
        yield from ("--setenv", name, value)


def _root(tools: Tools) -> Iterator[str]:
    """Yield the options for the read-only part of the program's file system."""
    own_tools = [tools.setpriv] if tools.way is IsolationMethod.ROOT else []
    extras = [path for path in _EXTRAS if Path(path).exists()]
    links = {path: str(Path(path).readlink()) for path in _LIBRARIES if Path(path).is_symlink()}
    libraries = [path for path in _LIBRARIES if Path(path).is_dir() and path not in links]
    bound = sorted({*libraries, *extras, *own_tools, *tools.readable})
    for directory in sorted({str(parent) for path in bound for parent in Path(path).parents}):
        # Made by us: those that bubblewrap makes by itself only their owner may enter.
        if directory not in {"/", HOME} and not _inside_any(directory, bound):
            yield from ("--perms", "0755", "--dir", directory)
    for path in bound:
        yield from ("--ro-bind", path, path)
    for path in tools.hidden:
        if _inside_any(path, bound):
            yield from ("--tmpfs", path, "--remount-ro", path)
    for path, target in sorted(links.items()):
        yield from ("--symlink", target, path)


def _inside_any(directory: str, bound: list[str]) -> bool:
    return any(Path(directory).is_relative_to(path) for path in bound)


def _memory(path: str, size_bytes: int) -> tuple[str, ...]:
    return ("--perms", "1777", "--size", str(size_bytes), "--tmpfs", path)


def _files(program: Program) -> Iterator[str]:
    """Yield the options for the program's files. Their contents come through descriptors and are
    never on a disk.
    """
    made_folders: set[str] = set()
    for number, name in enumerate(program.files):
        for parent in reversed(Path(name).parents):
            if str(parent) != "." and str(parent) not in made_folders:
                made_folders.add(str(parent))
                yield from ("--perms", "1777", "--dir", f"{HOME}/{parent}")
        yield from ("--perms", "0644", "--file", str(FILES_FD + number), f"{HOME}/{name}")


def forbidden_by(sysctls: Path = Path("/proc/sys")) -> str:
    """Return the kernel setting that forbids ordinary users to create user namespaces; empty when
    none does.
    """
    for name, forbids in (
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        try:
            value = (sysctls / name).read_text().strip()
        except OSError:
            continue
        if value == forbids:
            return f"{name.replace('/', '.')} = {value}"
    return ""

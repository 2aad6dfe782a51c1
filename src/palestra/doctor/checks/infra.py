"""Infra checks: the interpreter, the limits of this machine and user, the disk."""

import os
import platform
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.causes import Severity
from palestra.config import InstanceConfig
from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, Quote, quote
from palestra.doctor.forecast import MEMORY_AT_REST, MEMORY_PER_ROLLOUT
from palestra.doctor.tabled import tabled
from palestra.errors import ConfigError
from palestra.fleet import requirements_of, requirements_place, unsatisfied
from palestra.system import uv_command

MIB: Final = 1024**2
PROCESSES_PER_SERVER: Final = 16
"""Threads and workers of one server process; the process limit counts both."""
PROCESSES_AT_REST: Final = 64
SPARE_DISK: Final = 64 * MIB
"""Free bytes to keep besides the run's files, for logs and other programs."""
SPARE_INODES: Final = 64
DISK_FULL: Final = "infra.disk-full"
TAKES_NOTHING: Final = frozenset({DISK_FULL, "infra.not-writable"})
TMP_DISK: Final = 16 * MIB
"""Bytes that libraries and sandboxed programs need in the temporary folder."""


def check_interpreter(instances: Iterable[InstanceConfig]) -> Looked:
    """Report servers whose requirements this interpreter lacks; each gets its own environment."""
    notes = []
    for instance in instances:
        requirements = requirements_place(instance)
        if requirements is None:
            continue
        lacking = unsatisfied(requirements_of(requirements))
        if lacking:
            notes.append(_own_environment(instance, lacking))
    return Looked(f"Python {platform.python_version()}", tuple(notes))


def _own_environment(instance: InstanceConfig, lacking: tuple[str, ...]) -> Finding:
    has_uv = uv_command() is not None
    return tabled(
        "infra.own-environment" if has_uv else "infra.no-uv",
        f"{instance.name} requires {', '.join(lacking)}, which this interpreter lacks"
        + ("" if has_uv else ", and uv is not installed"),
        quote(instance.folder or "", ", ".join(lacking)),
        packages=" ".join(lacking),
    )


@dataclass(frozen=True, slots=True)
class Machine:
    """The resources of this machine and user, measured by the doctor or given by a test."""

    processes: int
    """The number of processes and threads of this user."""
    process_limit: int | None
    """The limit on processes and threads; None without one."""
    free_memory: int
    """Free bytes: the least of the machine's, the container's and the process limit's."""
    memory_source: str

    @classmethod
    def here(cls) -> "Machine":
        """Return the measured resources of this machine."""
        free, source = min(_memories(), default=(1 << 62, "nowhere"))
        return cls(_own_processes(), _process_limit(), free, source)


def check_processes(machine: Machine, servers: int) -> Looked:
    """Check whether the process limit allows this many server processes."""
    needed = PROCESSES_AT_REST + servers * PROCESSES_PER_SERVER
    if machine.process_limit is None:
        return Looked(f"{machine.processes} processes and threads, no limit")
    summary = f"{machine.processes} processes and threads of {machine.process_limit}"
    if machine.processes + needed <= machine.process_limit:
        return Looked(summary)
    finding = tabled(
        "infra.too-few-processes",
        f"about {needed} more processes and threads are needed, and "
        f"{max(0, machine.process_limit - machine.processes)} are left "
        f"(`ulimit -u {machine.processes + needed}` would do)",
        quote("ulimit -u", str(machine.process_limit)),
    )
    return Looked(summary, (finding,))


def check_memory(machine: Machine, in_flight: int) -> Looked:
    """Check whether `in_flight` concurrent rollouts fit into memory."""
    needed = MEMORY_AT_REST + in_flight * MEMORY_PER_ROLLOUT
    summary = f"{machine.free_memory // MIB:,} MiB free, about {needed // MIB:,} needed"
    if needed <= machine.free_memory:
        return Looked(summary)
    fits = max(1, (machine.free_memory - MEMORY_AT_REST) // MEMORY_PER_ROLLOUT)
    finding = tabled(
        "infra.little-memory",
        f"{in_flight:,} rollouts at once want about {needed // MIB:,} MiB, and "
        f"{machine.free_memory // MIB:,} are free",
        quote(machine.memory_source, f"{machine.free_memory} bytes free"),
        fits=fits,
    )
    return Looked(summary, (finding,))


def check_disk(output: Path, needed: int, *, temporary: Path) -> Looked:
    """Check whether the run's `needed` bytes fit on the disk of `output`, and `temporary` has free
    space.
    """
    folder = next(path for path in (output.parent, *output.parents) if path.exists())
    statistics = os.statvfs(folder)
    free = statistics.f_bavail * statistics.f_frsize
    summary = f"{free // MIB:,} MiB free for about {needed // MIB:,} in {folder}"
    findings = []
    if free < needed + SPARE_DISK:
        findings.append(_disk_full(folder, free, needed))
    if statistics.f_files and statistics.f_favail < SPARE_INODES:
        findings.append(_no_inodes(folder, statistics.f_favail))
    spare = os.statvfs(temporary)
    if spare.f_bavail * spare.f_frsize < TMP_DISK:
        findings.append(_no_temporary(temporary, spare.f_bavail * spare.f_frsize))
    return Looked(summary, tuple(findings))


def _disk_full(folder: Path, free: int, needed: int) -> Finding:
    return tabled(
        DISK_FULL,
        f"{folder} has {free / MIB:,.1f} MiB free, and the run writes about {needed / MIB:,.1f}: "
        f"{(needed + SPARE_DISK - free) / MIB:,.0f} too few",
        _mount(folder),
    )


def _no_inodes(folder: Path, free: int) -> Finding:
    return tabled(
        "infra.no-inodes",
        f"the file system of {folder} has room for {free} more files",
        _mount(folder),
    )


def _no_temporary(folder: Path, free: int) -> Finding:
    return tabled(
        "infra.temporary-full",
        f"the temporary folder {folder} has {free / MIB:,.1f} MiB free",
        _mount(folder),
    )


def check_descriptors(check: Callable[[], str]) -> Looked:
    """Check the open-file limit. `check` raises ConfigError or returns a warning when it is too
    low.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    quoted = (quote("ulimit -n", str(limit)),)
    summary = f"{limit} open files"
    try:
        warning = check()
    except ConfigError as error:
        return Looked(summary, (finding_of(error, evidence=quoted),))
    if not warning:
        return Looked(summary)
    symptom, _, ways = warning.partition("; ")
    finding = finding_of(
        ConfigError(symptom, hint=ways), evidence=quoted, severity=Severity.WARNING
    )
    return Looked(summary, (finding,))


def _mount(folder: Path) -> Quote:
    """Return the line of `/proc/mounts` for the file system that holds `folder`."""
    quoted = quote(folder, "")
    longest = -1
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return quoted
    for number, line in enumerate(lines, start=1):
        point = line.split()[1]
        if folder.is_relative_to(point) and len(point) > longest:
            longest, quoted = len(point), quote("/proc/mounts", line, line=number)
    return quoted


def _process_limit() -> int | None:
    """Return the process limit of this user; None without one. Root never has a limit."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return None if limit == resource.RLIM_INFINITY or os.geteuid() == 0 else limit


def _own_processes() -> int:
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == os.getuid():
                count += len(list((folder / "task").iterdir()))
        except OSError:
            continue  # it has ended meanwhile
    return count


def _memories() -> list[tuple[int, str]]:
    """Return free memory in bytes according to each source: the machine, the container, the process
    limit.
    """
    memories = [
        (int(line.split()[1]) * 1024, "/proc/meminfo")
        for line in _text(Path("/proc/meminfo")).splitlines()
        if line.startswith("MemAvailable:")
    ]
    limit_text, used = (
        _text(Path("/sys/fs/cgroup/memory.max")),
        _text(Path("/sys/fs/cgroup/memory.current")),
    )
    if limit_text.strip().isdigit() and used.strip().isdigit():
        memories.append((int(limit_text) - int(used), "/sys/fs/cgroup/memory.max"))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        memories.append((limit, "ulimit -v"))
    return memories


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""

"""Infra: the interpreter, the limits of this machine and user, the disk."""

import os
import platform
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.config import InstanceConfig
from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, Quote, Severity, quote
from palestra.doctor.forecast import MEMORY_AT_REST, MEMORY_PER_ROLLOUT
from palestra.doctor.tabled import tabled
from palestra.errors import ConfigError
from palestra.fleet import requirements_of, requirements_place, unsatisfied

MIB: Final = 1024**2
PROCESSES_PER_SERVER: Final = 16
"""Threads and workers of one server process; the limit counts both."""
PROCESSES_AT_REST: Final = 64
SPARE_DISK: Final = 64 * MIB
"""Beside what the run writes: logs, and what others write meanwhile."""
SPARE_INODES: Final = 64
DISK_FULL: Final = "infra.disk-full"
TAKES_NOTHING: Final = frozenset({DISK_FULL, "infra.not-writable"})
TMP_DISK: Final = 16 * MIB
"""What programs in a sandbox, and the libraries, want of the temporary folder."""


def check_interpreter(instances: Iterable[InstanceConfig]) -> Looked:
    """What servers require beside it: those that lack something get an environment of their own."""
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
    return tabled(
        "infra.own-environment",
        f"{instance.name} requires {', '.join(lacking)}, which this interpreter lacks",
        quote(instance.folder or "", ", ".join(lacking)),
        packages=" ".join(lacking),
    )


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine and user have. The doctor's own look, or a test's."""

    processes: int
    """Processes and threads of this user."""
    process_limit: int | None
    """None: no limit."""
    free_memory: int
    """Bytes, of the machine, the container and the process limit: the least."""
    memory_source: str

    @classmethod
    def here(cls) -> "Machine":
        """Look at this machine."""
        free, source = min(_memories(), default=(1 << 62, "nowhere"))
        return cls(_own_processes(), _process_limit(), free, source)


def check_processes(machine: Machine, servers: int) -> Looked:
    """Whether so many server processes may be started."""
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
    """Whether so many rollouts at once fit into memory."""
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
    """Whether what the run writes fits beside `output`, and programs can write `temporary`."""
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
    """`check` raises ConfigError when the run cannot have so many open files, or warns."""
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
    """The line of the file system that holds `folder`."""
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
    """Root has none, whatever is set."""
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
    """Free memory by everything that bounds it, in bytes."""
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

"""What a figure was measured on, how busy that was, and the CPU clock of any process."""

import os
import platform
import time
from pathlib import Path

CPUCLOCK_SCHED = 2
"""Linux: the clock of scheduled nanoseconds, as `clock_getcpuclockid(3)` encodes it."""


def cpu_ns(pid: int) -> int:
    """CPU nanoseconds of all threads of a process, kernel time included."""
    return time.clock_gettime_ns((~pid << 3) | CPUCLOCK_SCHED)


def description() -> str:
    """CPU model, cores and Python, in one line."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")
    implementation = platform.python_implementation()
    return f"{model}, {os.cpu_count()} cores, {implementation} {platform.python_version()}"


def load() -> str:
    """The load average over 1, 5 and 15 minutes."""
    return " ".join(f"{value:.2f}" for value in os.getloadavg())

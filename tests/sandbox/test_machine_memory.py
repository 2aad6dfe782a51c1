"""A machine that runs out of memory: whom the kernel kills then has shown nothing of itself.

Tried in a control group with little memory, in which the sandbox is and all its programs are.
"""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from escaping import GONE_WITHIN_S, isolating, living

pytestmark = pytest.mark.slow

MIB = 1 << 20
GREEDY = "x = []\\nwhile True: x.append(bytearray(1 << 20))"
TOP = Path("/sys/fs/cgroup")


@pytest.fixture
def small_group() -> Iterator[Path]:
    """The folder of a control group with 150 MiB; skips where none can be made."""
    limits = {TOP / "memory": "memory.limit_in_bytes", TOP: "memory.max"}
    for top, name in limits.items():
        group = top / f"palestra-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / name).write_text(str(150 * MIB))
        except OSError:
            group.rmdir()
            continue
        yield group
        group.rmdir()
        return
    pytest.skip("no control group with a memory limit can be made here")


def said_in(group: Path, backend: str, work: str) -> str:
    """What a process in the group prints: `work` has a `sandbox`."""
    code = f"""
        import asyncio, os
        from pathlib import Path
        from palestra.errors import InfraError
        from palestra.resources_servers.code_gen.suite import Suite, SuiteLimits, run_tests
        from palestra.sandbox import Limits, Program, Sandbox, SandboxSettings
        greedy = "{GREEDY}"
        Path({str(group)!r}, "cgroup.procs").write_text(str(os.getpid()))
        async def main():
            async with Sandbox(SandboxSettings(backend={backend!r})) as sandbox:
                try:
                    print(await {work})
                except InfraError as error:
                    print("InfraError:", error.message)
        asyncio.run(main())
    """
    others = living()
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=50)
    _wait_until_empty(group)
    assert living(process.pid) == others
    return said


def _wait_until_empty(group: Path) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.parametrize("backend", ["bubblewrap", "process"])
def test_a_program_that_is_killed_for_the_machines_sake_has_no_result(
    small_group: Path, backend: str
) -> None:
    isolating()

    said = said_in(
        small_group, backend, "sandbox.run(Program.python(greedy), limits=Limits(memory_mib=600))"
    )

    assert said.startswith("InfraError:")
    assert "ran out of memory" in said


def test_a_test_of_code_gen_whose_program_is_killed_so_has_no_verdict(small_group: Path) -> None:
    isolating()

    said = said_in(
        small_group,
        "bubblewrap",
        "run_tests(sandbox, greedy, Suite(['1'], ['2']), SuiteLimits(20, 40, 600, 64))",
    )

    assert said.startswith("InfraError:")
    assert "ran out of memory" in said


def test_a_program_that_kills_itself_has_failed_however_little_memory_there_is(
    small_group: Path,
) -> None:
    kills = "sandbox.run(Program.python('import os; os.kill(os.getpid(), 9)'))"

    assert "exit_code=137" in said_in(small_group, "process", kills)

"""Single checks: what they make of a machine, a cluster, a sandbox."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from palestra.api import check_descriptors
from palestra.causes import Severity
from palestra.doctor import Looked, Round
from palestra.doctor.checks.infra import (
    Machine,
    check_disk,
    check_memory,
    check_processes,
)
from palestra.doctor.checks.infra import (
    check_descriptors as look_at_descriptors,
)
from palestra.doctor.checks.machines import check_ray, check_sandboxes, check_slurm
from palestra.errors import Layer
from palestra.sandbox import SandboxSettings
from palestra.settings import CollectSettings

GIB = 1024**3


def machine(*, processes: int = 100, limit: int | None = 1000, memory: int = 8 * GIB) -> Machine:
    return Machine(processes, limit, memory, "/proc/meminfo")


def causes(looked: Looked) -> list[str]:
    return [finding.cause for finding in looked.findings]


@pytest.mark.parametrize(("concurrency", "severity"), [(400, Severity.ERROR), (None, "warning")])
def test_rollouts_that_do_not_fit_into_open_files_are_found(
    concurrency: int | None, severity: Severity
) -> None:
    settings = CollectSettings((), Path("out.jsonl"), num_samples_in_parallel=concurrency)

    looked = look_at_descriptors(partial(check_descriptors, settings, 500, [], 300))

    assert causes(looked) == ["infra.too-few-descriptors"]
    assert looked.findings[0].severity == severity
    assert "--concurrency 44" in looked.findings[0].next_action


def test_a_limit_on_processes_is_found_before_servers_meet_it() -> None:
    assert causes(check_processes(machine(processes=950), servers=3)) == ["infra.too-few-processes"]
    assert causes(check_processes(machine(processes=100), servers=3)) == []
    assert causes(check_processes(machine(processes=950, limit=None), servers=3)) == []


def test_little_memory_is_told_with_the_concurrency_that_fits() -> None:
    looked = check_memory(machine(memory=GIB), in_flight=16_384)

    assert causes(looked) == ["infra.little-memory"]
    assert "--concurrency 4096" in looked.findings[0].next_action


def test_a_disk_without_room_for_the_run_is_found(tmp_path: Path) -> None:
    looked = check_disk(tmp_path / "deep" / "out.jsonl", 1 << 60, temporary=tmp_path)

    assert causes(looked) == ["infra.disk-full"]
    assert looked.findings[0].evidence[0].source == "/proc/mounts"


def test_a_ray_cluster_that_does_not_answer_is_found() -> None:
    pytest.importorskip("ray")

    looked = asyncio.run(check_ray({"ray_head_node_address": "ray://127.0.0.1:1"}))

    assert causes(looked) == ["infra.ray-unreachable"]


def test_nothing_is_said_of_a_cluster_that_is_not_configured() -> None:
    assert asyncio.run(check_ray({})).skipped
    assert asyncio.run(check_slurm({})).skipped


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("Slurmctld(primary) at head is UP", []),
        ("Slurmctld(primary) at head is DOWN", ["infra.slurm-unreachable"]),
    ],
)
def test_slurms_controller_is_asked_inside_a_job(
    tmp_path: Path, says: str, expected: list[str]
) -> None:
    command = tmp_path / "scontrol"
    command.write_text(f"#!/bin/sh\necho '{says}'\n")
    command.chmod(0o755)

    looked = asyncio.run(check_slurm({"SLURM_JOB_ID": "7", "PATH": str(tmp_path)}))

    assert causes(looked) == expected


def test_a_sandbox_that_cannot_be_had_is_a_matter_of_infra() -> None:
    unreachable = SandboxSettings(backend="http", host="127.0.0.1", port=1)

    looked = asyncio.run(check_sandboxes([("code_gen", unreachable)]))

    assert causes(looked) == ["infra.no-sandbox"]
    assert "code_gen" in looked.findings[0].symptom


def test_a_sandbox_runs_a_program() -> None:
    looked = asyncio.run(check_sandboxes([("code_gen", SandboxSettings(backend="process"))]))

    assert causes(looked) == []
    assert "process runs programs" in looked.said


def test_a_check_that_does_not_come_back_is_a_finding_and_the_others_go_on() -> None:
    async def both() -> Round:
        round_ = Round()
        async with asyncio.TaskGroup() as tasks:
            never = asyncio.Event().wait()
            tasks.create_task(round_.look(Layer.MODEL, "slow", never, within_s=0.05))  # type: ignore[arg-type]
            tasks.create_task(round_.look(Layer.INFRA, "fast", said("ok"), within_s=1))
        return round_

    found = asyncio.run(both())

    assert [run.name for run in found.runs] == ["fast", "slow"]
    assert [finding.cause for finding in found.findings()] == ["model.no-answer"]


def test_a_check_that_breaks_is_told_as_such_and_is_no_error_of_the_run() -> None:
    async def broken() -> Looked:
        raise KeyError("x")

    found = Round()
    asyncio.run(found.look(Layer.DATA, "rows", broken(), within_s=1))

    (finding,) = found.findings()
    assert (finding.cause, finding.severity) == ("data.check-failed", Severity.WARNING)
    assert finding.evidence[0].source == __file__


def test_a_deadline_of_another_is_not_taken_for_that_of_the_check() -> None:
    async def refused() -> Looked:
        raise TimeoutError("the peer of a socket is gone")

    found = Round()
    asyncio.run(found.look(Layer.INFRA, "fleet", refused(), within_s=60))

    assert [finding.cause for finding in found.findings()] == ["infra.check-failed"]


def test_what_two_checks_find_alike_is_told_once() -> None:
    looked = check_processes(machine(processes=999), servers=1)
    found = Round()
    found.note(Layer.INFRA, "one", looked)
    found.note(Layer.INFRA, "other", looked)

    assert len(found.findings()) == 1


async def said(text: str) -> Looked:
    return Looked(text)

"""Infra checks beyond this process: Ray, Slurm and the sandbox, if the configuration uses them."""

import asyncio
import importlib.util
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from palestra.config import ConfigTree
from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, quote
from palestra.doctor.tabled import tabled
from palestra.errors import PalestraError
from palestra.fleet import RAY_ADDRESS
from palestra.sandbox import Limits, Program, Sandbox, SandboxSettings
from palestra.system import run_async

CONNECT_S: Final = 5.0
SLURM_S: Final = 10.0
_PROBE: Final = Program.python("print('probed')")


async def check_ray(tree: ConfigTree) -> Looked:
    """Check whether the configured Ray cluster responds."""
    address = str(tree.get(RAY_ADDRESS) or "")
    if not address:
        return Looked("not configured", skipped=True)
    if importlib.util.find_spec("ray") is None:
        return Looked("not installed", (_no_ray(address),))
    if address == "auto":
        return Looked("auto: found when it is first used")
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, int(port))
    except (OSError, TimeoutError, ValueError) as error:
        return Looked(f"{address} does not answer", (_ray_gone(address, error),))
    writer.close()
    return Looked(f"{address} answers")


def _no_ray(address: str) -> Finding:
    return tabled(
        "infra.ray-missing",
        f"{RAY_ADDRESS} is {address!r}, and Ray is not installed",
        quote("configuration", address, pointer=RAY_ADDRESS),
    )


def _ray_gone(address: str, error: Exception) -> Finding:
    why = str(error) or type(error).__name__
    return tabled(
        "infra.ray-unreachable",
        f"the Ray cluster at {address} cannot be reached: {why}",
        quote("configuration", address, pointer=RAY_ADDRESS),
    )


async def check_slurm(environ: Mapping[str, str]) -> Looked:
    """Check whether Slurm's controller responds, if this process is in a Slurm job."""
    job = environ.get("SLURM_JOB_ID", "")
    if not job:
        return Looked("not in a job", skipped=True)
    command = shutil.which("scontrol", path=environ.get("PATH"))
    if command is None:
        return Looked(
            f"in job {job}, without Slurm's commands", (_slurm("scontrol is not in PATH"),)
        )
    try:
        process = await run_async([command, "ping"], timeout_s=SLURM_S)
    except TimeoutError:
        return Looked("no answer", (_slurm(f"scontrol ping: no answer in {SLURM_S:g} s"),))
    if process.code == 0 and "DOWN" not in process.text:
        return Looked(
            f"in job {job}: {process.text.splitlines()[0] if process.text else 'it answers'}"
        )
    return Looked("it is down", (_slurm(process.text or f"scontrol exits {process.code}"),))


def _slurm(answer: str) -> Finding:
    return tabled(
        "infra.slurm-unreachable",
        "Slurm's controller does not answer",
        quote("scontrol ping", answer),
    )


async def check_sandboxes(sandboxes: Iterable[tuple[str, SandboxSettings]]) -> Looked:
    """Run a test program in the sandbox of every server that has one; equal settings are tried
    once.
    """
    servers: dict[str, tuple[list[str], SandboxSettings]] = {}
    for name, settings in sandboxes:
        servers.setdefault(settings.model_dump_json(), ([], settings))[0].append(name)
    if not servers:
        return Looked("no server runs programs", skipped=True)
    results, findings = [], []
    for names, settings in servers.values():
        result = await _try(names, settings)
        if isinstance(result, Finding):
            findings.append(result)
        else:
            results.append(f"{result}, for {', '.join(names)}")
    return Looked("; ".join(results) or "does not work", tuple(findings))


async def _try(names: list[str], settings: SandboxSettings) -> Finding | str:
    quoted = (quote("configuration", settings.backend, pointer=f"{names[0]}: sandbox.backend"),)
    try:
        async with Sandbox(settings) as sandbox:
            backend = await sandbox.start()
            result = await sandbox.run(_PROBE, limits=Limits(cpu_s=10, wall_s=20))
    except PalestraError as error:
        cause = finding_of(error, evidence=quoted)
        finding = tabled(
            "infra.no-sandbox", f"{', '.join(names)}: {cause.symptom}", *cause.evidence
        )
        return replace(finding, next_action=error.hint or finding.next_action)
    if result.ok and result.stdout.strip() == "probed":
        return f"{backend.name} runs programs"
    return tabled(
        "infra.sandbox-broken",
        f"{', '.join(names)}: a program in the sandbox does not run",
        *quoted,
        quote("its standard error", result.stderr),
    )

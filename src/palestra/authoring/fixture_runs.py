"""Run a verifier's fixture: start its server without models, and send each request to `verify`.

A server whose requirements are not installed here runs in its own cached environment.
"""

import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.authoring.fixtures import (
    VERIFIER_FIXTURE,
    CaseKind,
    CaseResult,
    FixtureCase,
    FixtureReport,
    RewardRange,
    Verdict,
    judged,
    load_fixture,
)
from palestra.config import InstanceConfig, ResolvedConfig, ServerType, config_from_tree
from palestra.errors import (
    CallError,
    ConfigError,
    InputDataError,
    PalestraError,
    RunFailed,
    status_for,
)
from palestra.fleet import (
    assembled,
    cache_root,
    interpreter_for,
    load_module,
    requirements_of,
    requirements_place,
    unsatisfied,
)
from palestra.schema import JsonDict, VerifyResponse
from palestra.system import run_async, write_whole
from palestra.transport import CallContext, ServerClient, calling

REPEATS: Final = 3
"""How many times the request of a determinism case is verified."""
START_S: Final = 180.0
"""The seconds that a server in its own environment may take to start."""
_PROGRAM: Final = "from palestra.authoring.fixture_runs import write_report; write_report()"


@dataclass(frozen=True, slots=True)
class FixtureRun:
    """A fixture to run: the configuration, the name of the resources server in it, and limits."""

    config: ResolvedConfig
    server: str
    reward: RewardRange | None = None
    """The declared rewards; None: any finite reward is accepted."""
    timeout_s: float = 60.0
    """The time limit for one request, in seconds."""


async def run_fixture(work: FixtureRun) -> FixtureReport:
    """Run every case and return the results.

    Raises ConfigError: `app.py` names no fixture, or the server's settings are wrong.
    InputDataError: the fixture cannot be read. RunFailed: the server's environment cannot run it.
    """
    instance = work.config.instance(work.server)
    requirements = requirements_place(instance)
    if requirements is None or not unsatisfied(requirements_of(requirements)):
        return await _run_here(work)
    tree = work.config.tree
    python = await interpreter_for(requirements, cache=cache_root(tree.get("uv_venv_dir")))
    return await _run_elsewhere(work, python)


def fixture_of(instance: InstanceConfig) -> Path:
    """Import a server's `app.py` and return the path of its fixture.

    Raises ConfigError: `app.py` names none, or names no path.
    """
    if instance.folder is None:
        raise ConfigError(f"{instance.name} is remote: it has no folder with a fixture")
    app = instance.folder / instance.entrypoint
    declared = getattr(load_module(app), VERIFIER_FIXTURE, None)
    if declared is None:
        raise ConfigError(
            f"{app} names no verifier fixture",
            hint=f'{VERIFIER_FIXTURE} = "tests/verifier_fixture.jsonl" names a file of its folder',
        )
    if not isinstance(declared, str | os.PathLike):
        raise ConfigError(
            f"{app}: {VERIFIER_FIXTURE} is {declared!r}, and must be a path in the server's folder"
        )
    return instance.folder / declared


async def _run_here(work: FixtureRun) -> FixtureReport:
    instance = work.config.instance(work.server)
    path = fixture_of(instance)
    cases = load_fixture(path)
    async with assembled(work.config, _servers(work)) as assembly:
        results = [
            await _run_case(assembly.client, work, line, case) for line, case in cases.items()
        ]
    return FixtureReport(server=work.server, fixture=path, cases=tuple(results))


def _servers(work: FixtureRun) -> list[str]:
    """Return the server and those that it refers to, without models."""
    names: list[str] = []
    to_visit = [work.server]
    while to_visit:
        name = to_visit.pop()
        if name not in names:
            names.append(name)
            refs = work.config.instance(name).refs
            to_visit += [ref.name for ref in refs if ref.type != ServerType.MODEL]
    return names


async def _run_case(
    client: ServerClient, work: FixtureRun, line: int, case: FixtureCase
) -> CaseResult:
    count = REPEATS if case.kind is CaseKind.DETERMINISM else 1
    verdicts = [await _verdict(client, work, case.request) for _ in range(count)]
    return judged(line, case, verdicts, work.reward)


async def _verdict(client: ServerClient, work: FixtureRun, request: Any) -> Verdict:
    context = CallContext(None, time.monotonic() + work.timeout_s)
    try:
        with calling(context):
            async with asyncio.timeout(work.timeout_s):
                response = await client.peer(work.server).call("/verify", request, VerifyResponse)
    except TimeoutError:
        return Verdict(error=f"not verified within {work.timeout_s:g} s")
    except CallError as error:
        return Verdict(error=f"{type(error).__name__}: {error.message}", status=status_for(error))
    except Exception as error:  # an author's code may raise anything for a malformed request
        return Verdict(error=f"{type(error).__name__}: {error}")
    return Verdict(reward=response.reward)


async def _run_elsewhere(work: FixtureRun, python: Path) -> FixtureReport:
    limit_s = START_S + work.timeout_s
    with tempfile.TemporaryDirectory(prefix="palestra-fixture-") as folder:
        order, answer = Path(folder) / "order.json", Path(folder) / "report.json"
        order.write_bytes(orjson.dumps(_as_json(work)))
        order.chmod(0o600)
        command = [str(python), "-P", "-c", _PROGRAM, str(order), str(answer)]
        try:
            ended_process = await run_async(command, timeout_s=limit_s, inherits_output=True)
        except TimeoutError:
            raise RunFailed(
                f"{work.server}: the fixture did not end within {limit_s:g} s"
            ) from None
        if not answer.exists():
            raise RunFailed(
                f"{work.server}: the fixture could not be run: {python} ended with exit code "
                f"{ended_process.code}"
            )
        content: JsonDict = orjson.loads(answer.read_bytes())
    if "error" in content:
        kinds = {kind.__name__: kind for kind in (ConfigError, InputDataError)}
        raise kinds.get(content["kind"], RunFailed)(content["error"], hint=content["hint"])
    return FixtureReport.model_validate(content)


def _as_json(work: FixtureRun) -> JsonDict:
    return {
        "tree": work.config.tree,
        "server": work.server,
        "reward": None if work.reward is None else work.reward.model_dump(),
        "timeout_s": work.timeout_s,
    }


def write_report() -> None:
    """Run the fixture of the order in the first argument, and write its report, or the error, to
    the file in the second argument. Runs in the server's own environment.
    """
    order, answer = map(Path, sys.argv[1:3])
    values: JsonDict = orjson.loads(order.read_bytes())
    reward = values["reward"]
    work = FixtureRun(
        config_from_tree(values["tree"]),
        values["server"],
        None if reward is None else RewardRange.model_validate(reward),
        values["timeout_s"],
    )
    content: JsonDict
    try:
        content = asyncio.run(_run_here(work)).model_dump(mode="json")
    except PalestraError as error:
        content = {"kind": type(error).__name__, "error": error.message, "hint": error.hint}
    write_whole(answer, orjson.dumps(content))

"""`gym env validate|test|init|publish`: the folders of environments, benchmarks and servers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import Field

from palestra.authoring import (
    Component,
    ComponentKind,
    FixtureReport,
    FixtureRun,
    ManifestReport,
    NewComponent,
    RewardDeclaration,
    RewardRange,
    catalogue_entry,
    check_component,
    check_name,
    component_at,
    component_config,
    find_component,
    offline_config,
    publication_problems,
    read_manifest,
    run_fixture,
    scaffold_component,
    server_problems,
    servers_of,
    update_expected,
)
from palestra.authoring import publish as publish_component
from palestra.cli.authoring import documented_servers, server_folder, tested
from palestra.cli.console import masking, notice, say, say_json, warn_all
from palestra.cli.guard import tell_guard
from palestra.cli.gym.grammar import Invocation, UsageError, name_in
from palestra.cli.scaffolding import init_with_warning, warn_built_in
from palestra.cli.tables import print_table
from palestra.config import raise_problems, search_roots
from palestra.errors import ConfigError, KnownCause, Problem, RunFailed
from palestra.fleet import starting_within
from palestra.schema import JsonDict
from palestra.settings import Settings, TestArgs, args_from, load
from palestra.system import beating, shown

CASE_S: Final = 60.0
"""How long the verification of one case may take, in seconds."""
START_S: Final = 600.0
HEADING: Final = "Config is valid."
NEXT_COMMANDS: Final = (
    "env test --resources-server {name}",
    "env test {name}",
    (
        "eval run --resources-server {name} --model-type local_model --split example "
        "--output results/{name}.jsonl"
    ),
)
"""What to type after the program's name, once `env init` has made a resources server."""


class EnvTestArgs(Settings):
    """The settings of `env test` beside its flags."""

    entrypoint: str = ""
    should_validate_data: bool = False
    num_shards: int = Field(default=1, ge=1)
    shard_index: int = Field(default=0, ge=0)


# validate


def validate(invocation: Invocation, overrides: list[str]) -> int:
    """Check a manifest with its config, or the configuration alone. Nothing is started.

    Exit 1 when a component has problems. Raises ConfigError: the configuration is wrong.
    """
    if invocation.name is None and "manifest" not in invocation.flags:
        if "sync" in invocation.flags:
            raise UsageError("--sync needs a NAME or --manifest")
        try:
            config = offline_config(overrides=overrides)
            raise_problems(server_problems(config))
        except ConfigError as error:
            if not invocation.json:
                raise
            problems = [_problem_json(problem) for problem in error.problems]
            say_json({"valid": False, "problems": problems})
            return RunFailed.exit_code
        warn_all(config.warnings)
        if invocation.json:
            say_json({"valid": True, "problems": []})
        else:
            say(HEADING)
        return 0
    report = check_component(
        _component(invocation),
        overrides=overrides,
        sync="sync" in invocation.flags,
        needs_manifest="manifest" in invocation.flags,
    )
    if invocation.json:
        say_json(_validation_json(report))
    else:
        _show_validation(report)
    return 0 if report.passed else RunFailed.exit_code


def _component(invocation: Invocation) -> Component:
    if path := invocation.flags.get("manifest"):
        component = component_at(Path(path).expanduser())
        if invocation.name not in {None, component.name}:
            raise UsageError(
                f"--manifest is of {component.name!r}, and NAME is {invocation.name!r}"
            )
        return component
    command = f"{invocation.program} env {invocation.action}"
    advice = f"{command} --resources-server {{name}}"
    if invocation.action == "publish":  # which has no such flag: a server has no manifest
        advice = (
            f"{invocation.program} env init --environment my_{{name}} --reuse-verifier {{name}} "
            "makes an environment of it"
        )
    return find_component(
        invocation.name or "", search_roots(), _kinds(invocation), server_advice=advice
    )


def _kinds(invocation: Invocation) -> tuple[ComponentKind, ...]:
    kind = invocation.flags.get("kind")
    return tuple(ComponentKind) if kind is None else (ComponentKind(kind),)


def _validation_json(report: ManifestReport) -> JsonDict:
    component = report.component
    return {
        "name": component.name,
        "kind": component.kind,
        "valid": report.passed,
        "config": str(component.config),
        "manifest": str(component.manifest) if component.manifest.is_file() else None,
        "problems": [_problem_json(problem) for problem in report.problems],
        "synced": list(report.synced),
    }


def _problem_json(problem: Problem) -> JsonDict:
    return {
        "message": problem.message,
        "hint": problem.hint,
        "file": problem.file,
        "line": problem.line or None,
        "key": problem.key,
    }


def _show_validation(report: ManifestReport) -> None:
    component = report.component
    if report.synced:
        say(f"{shown(component.manifest)}: wrote {', '.join(report.synced)} from the config")
    for problem in report.problems:
        say(f"Error: {problem.message}")
    for hint in dict.fromkeys(problem.hint for problem in report.problems if problem.hint):
        notice(f"hint: {hint}")
    if not report.passed:
        return
    if report.manifest is None:
        notice(f"note: {component.name} has no manifest: {shown(component.manifest)}")
    else:
        say(f"{component.kind} {component.name}: manifest {report.manifest.version} is valid.")
    say(HEADING)


# test


def test(invocation: Invocation, overrides: list[str]) -> int:
    """Run the fixture of NAME's verifier; without NAME, the tests of one server or of all.

    The exit code for one server is pytest's own; any other failure is 1.
    """
    if invocation.name is not None:
        report = _fixture_report(invocation, overrides)
        updated = update_expected(report) if "update_expected" in invocation.flags else []
        if updated:
            report = _fixture_report(invocation, overrides)
        if invocation.json:
            say_json(_fixture_json(invocation.name, report, updated))
        else:
            _show_fixture(report, updated)
        return 0 if report.passed else RunFailed.exit_code
    if "update_expected" in invocation.flags:
        raise UsageError("--update-expected needs a NAME")
    config = load(overrides, ng=True, require_all=False, required=())
    args = args_from(EnvTestArgs, config.tree)
    if args.entrypoint:
        return _test_one(args, as_json=invocation.json)
    return _test_share(args, as_json=invocation.json)


def _test_one(args: EnvTestArgs, *, as_json: bool) -> int:
    settings = TestArgs(data=args.should_validate_data, fresh=False, as_json=as_json)
    [report] = tested([server_folder(args.entrypoint)], settings)
    return report.exit_code or (0 if report.passed else RunFailed.exit_code)


def _test_share(args: EnvTestArgs, *, as_json: bool) -> int:
    """Test every server, or the share of one shard: each `num_shards`th, from `shard_index` on."""
    if args.shard_index >= args.num_shards:
        raise UsageError(
            f"shard_index {args.shard_index} is not one of {args.num_shards} shards",
            hint="shards are counted from 0: +num_shards=4 +shard_index=3",
        )
    folders = documented_servers()[args.shard_index :: args.num_shards]
    reports = tested(folders, TestArgs(fresh=False, as_json=as_json))
    return 0 if all(report.passed for report in reports) else RunFailed.exit_code


def _fixture_report(invocation: Invocation, overrides: Sequence[str]) -> FixtureReport:
    work = _fixture_run(invocation, overrides)
    with masking(work.config.secrets):
        return asyncio.run(_run(work))


async def _run(work: FixtureRun) -> FixtureReport:
    tell_guard(limit_s=CASE_S + 1.0, limit_of="a case", hint="make that line return")
    async with beating():
        with starting_within(START_S):
            return await run_fixture(work)


def _fixture_run(invocation: Invocation, overrides: Sequence[str]) -> FixtureRun:
    """Return the fixture run of an environment, a benchmark or a resources server.

    Raises ConfigError: there is no component with this name, or it has no resources server.
    """
    name = invocation.name or ""
    try:
        component = find_component(name, search_roots(), _kinds(invocation))
    except ConfigError:
        server_config = f"resources_servers/{name}/configs/{name}.yaml"
        is_server = any((root / server_config).is_file() for root in search_roots())
        if "kind" in invocation.flags or not is_server:
            raise
        config = offline_config([server_config], overrides)
        server, _ = servers_of(config, {"resources_server": name})
        declared = None
    else:
        config = component_config(component, overrides)
        manifest = read_manifest(component.manifest) if component.manifest.is_file() else None
        declarations = manifest.model_dump() if manifest else None
        server, _ = servers_of(config, declarations, component)
        declared = _range_of(manifest.reward) if manifest else None
    if server is None:
        raise ConfigError(f"the config of {name} has no resources server")
    return FixtureRun(config, server.name, declared, CASE_S)


def _range_of(reward: RewardDeclaration) -> RewardRange:
    low, high = reward.range
    return RewardRange(low=low, high=high, best=reward.best)


def _fixture_json(name: str, report: FixtureReport, updated: Sequence[str]) -> JsonDict:
    return {
        "name": name,
        "server": report.server,
        "fixture": str(report.fixture),
        "passed": report.passed,
        "updated": list(updated),
        "cases": [
            {
                "name": case.name,
                "kind": case.kind,
                "line": case.line,
                "passed": case.passed,
                "expected": case.expected,
                "reward": case.verdict.reward,
                "error": case.verdict.error or None,
                "problem": case.problem,
            }
            for case in report.cases
        ],
    }


def _show_fixture(report: FixtureReport, updated: Sequence[str]) -> None:
    if updated:
        say(f"{shown(report.fixture)}: wrote the results of {', '.join(updated)}")
    print_table(
        ("case", "kind", "result", "note"),
        [
            (case.name, case.kind, "passed" if case.passed else "failed", case.problem)
            for case in report.cases
        ],
        title=f"{report.server}: {shown(report.fixture)}",
    )
    passed = sum(case.passed for case in report.cases)
    say(f"{passed} of {len(report.cases)} cases pass")


# init


def init(invocation: Invocation, overrides: list[str]) -> int:
    """Make the folder of a resources server, an environment or a benchmark.

    Exit 0 and change nothing when the folder of a resources server exists already.
    """
    flags = invocation.flags
    names = {kind: flags[kind.value] for kind in ComponentKind if kind.value in flags}
    is_server = any(o.lstrip("+").startswith("entrypoint=") for o in overrides)
    if len(names) + is_server != 1:
        raise UsageError(
            "env init makes one folder",
            hint="give --resources-server NAME, --environment NAME or --benchmark NAME",
        )
    if is_server:
        return _init_server(invocation, overrides)
    [(kind, text)] = names.items()
    name = name_in(kind.tree, text)
    _check_new_name(name)
    new = NewComponent(
        kind,
        name,
        verifier=flags.get("reuse_verifier", ""),
        reward=_declared_reward(invocation),
        **({"profile": flags["profile"]} if "profile" in flags else {}),
    )
    written = scaffold_component(new, Path.cwd())
    folder = shown(Path.cwd() / kind.tree / name)
    if written and kind is ComponentKind.ENVIRONMENT:
        warn_built_in(name)
    say(f"made {folder}:" if written else f"{folder} is as it would be made: nothing was written")
    for path in written:
        say(f"  {shown(path)}")
    say(f"next: {invocation.program} env validate {name} --kind {kind}")
    return 0


def _check_new_name(name: str) -> None:
    try:
        check_name(name)
    except ConfigError as error:
        raise UsageError(error.message, hint=error.hint) from error


def _init_server(invocation: Invocation, overrides: list[str]) -> int:
    next_commands = [f"{invocation.program} {words}" for words in NEXT_COMMANDS]
    try:
        return init_with_warning(overrides, next_commands)
    except ConfigError as error:
        if error.cause is not KnownCause.OUTPUT_EXISTS:
            raise
        say(f"{error.message}; nothing was written")
        return 0


def _declared_reward(invocation: Invocation) -> RewardDeclaration:
    flags = invocation.flags
    if {"higher_is_better", "lower_is_better"} <= flags.keys():
        raise UsageError("--higher-is-better and --lower-is-better contradict each other")
    low, high = flags.get("reward_range", (0.0, 1.0))
    if not low < high:
        raise UsageError(
            f"--reward-range {low:g} {high:g}: the first must be lower than the second"
        )
    return RewardDeclaration(range=(low, high), higher_is_better="lower_is_better" not in flags)


# publish


def publish(invocation: Invocation, overrides: list[str]) -> int:
    """Check the manifest, run the fixture, and write the catalogue's line. Exit 1 when a check
    fails; nothing is written then.
    """
    if invocation.name is None:
        raise UsageError(f"{invocation.program} env publish needs a NAME")
    component = _component(invocation)
    validation = check_component(component, overrides=overrides, needs_manifest=True)
    problems = [problem.message for problem in validation.problems]
    fixture = None
    if validation.manifest is not None and not problems:
        fixture = _fixture_report(invocation, overrides)
        problems = publication_problems(fixture)
    catalogue = None
    if validation.manifest is not None and not problems:
        catalogue = publish_component(component, validation.manifest)
    if invocation.json:
        entry = validation.manifest and catalogue_entry(component, validation.manifest)
        say_json(
            {
                "name": component.name,
                "kind": component.kind,
                "published": catalogue is not None,
                "problems": problems,
                "fixture": fixture and _fixture_json(component.name, fixture, ()),
                "catalogue": catalogue and str(catalogue),
                "entry": entry if catalogue else None,
            }
        )
    else:
        for problem in problems:
            say(f"Error: {problem}")
        if catalogue is not None:
            say(f"{component.kind} {component.name} is in {shown(catalogue)}")
    return 0 if catalogue is not None else RunFailed.exit_code

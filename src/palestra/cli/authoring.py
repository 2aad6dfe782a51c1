"""`init` and `test`: an environment's folder made, and looked at; `skills install`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from palestra.authoring import FolderReport, check_folder, scaffold, write_config
from palestra.cli.console import notice, say, shown
from palestra.cli.guard import tell_guard
from palestra.cli.tables import print_table
from palestra.config import PACKAGE_ROOT, SERVER_TREES, nearest, project_root, renamed
from palestra.errors import ConfigError, RunFailed
from palestra.fleet import starting_within
from palestra.settings import (
    EntrypointArgs,
    InitArgs,
    TestArgs,
    args_from,
    existing_path,
    load,
)
from palestra.system import beating

DEV_TEST_S = 24 * 3600.0
"""By when palestra's own tests have ended, or will not."""

RESOURCES = "resources_servers"


def init(args: InitArgs) -> int:
    """Make the folder of a new environment, and say what to do next."""
    if args.config_only:
        say(f"made {shown(write_config(args.name, Path.cwd()))}")
        return 0
    folder = scaffold(args.name, Path.cwd())
    say(f"made {shown(folder)}:")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        say(f"  {path.relative_to(folder)}")
    say("next: edit app.py and data/example.jsonl, then")
    say(f"  palestra test {folder.name}")
    say(f"  palestra verify-env {folder.name}")
    say(f"  palestra eval {folder.name} --model local")
    return 0


def ng_init(overrides: list[str]) -> int:
    """`ng_init_resources_server +entrypoint=resources_servers/my_env`."""
    return init(InitArgs(name=_entrypoint(overrides).entrypoint))


def _entrypoint(overrides: list[str]) -> EntrypointArgs:
    config = load(overrides, ng=True, require_all=False)
    return args_from(EntrypointArgs, config.tree, hint="+entrypoint=resources_servers/my_env")


def test_servers(args: TestArgs) -> int:
    """Test every folder and print the table; exit 1 when anything is wrong with any."""
    folders = [_folder(name) for name in args.names] if args.names else _all((RESOURCES,))
    if args.record:
        from palestra.cli.examples import record

        for folder in folders:
            notice(f"{folder.name}: recorded")
            for line in record(str(folder)):
                notice(f"  {line}")
    return _tested(folders, args)


def ng_test(overrides: list[str]) -> int:
    """`ng_test +entrypoint=resources_servers/my_env`."""
    args = _entrypoint(overrides)
    names = (args.entrypoint,)
    return test_servers(TestArgs(names=names, data=args.should_validate_data, fresh=False))


def ng_test_all() -> int:
    """`ng_test_all`: every server of the three trees that has a README."""
    folders = [folder for folder in _all(SERVER_TREES) if (folder / "README.md").exists()]
    return _tested(folders, TestArgs(fresh=False))


def ng_dev_test() -> int:
    """`ng_dev_test`: palestra's own tests, in a checkout of it."""
    import sys

    from palestra.system import run

    tests = PACKAGE_ROOT.parents[1] / "tests"
    if not tests.is_dir():
        raise ConfigError(
            "palestra's own tests are not installed", hint="run it in a checkout of palestra"
        )
    command = [sys.executable, "-m", "pytest", "-m", "not slow", str(tests)]
    done = run(command, cwd=tests.parent, timeout_s=DEV_TEST_S, inherits_output=True)
    return done.code


def _folder(given: str) -> Path:
    """The folder that a name or a path means, in the project before the package."""
    here = Path.cwd()
    roots = dict.fromkeys((here, project_root(here) or here, PACKAGE_ROOT))
    places = [root / way for root in roots for way in (given, f"{RESOURCES}/{given}")]
    for place in (*places, existing_path(given)):
        if (place / "app.py").exists() or (place / "configs").is_dir():
            if (newer := renamed(given)) and place.name == Path(newer.new).name:
                notice(f"warning: {newer}")
            return place
    near = nearest(given, [folder.name for folder in _all((RESOURCES,))])
    raise ConfigError(
        f"{given} is no server's folder" + (f"; did you mean {near!r}?" if near else ""),
        hint="a folder like resources_servers/my_env, with app.py in it",
    )


def _all(trees: Sequence[str]) -> list[Path]:
    """Every server's folder of the project; where there is no project, of the package."""
    here = [Path.cwd() / tree for tree in trees if (Path.cwd() / tree).is_dir()]
    roots = here or [PACKAGE_ROOT / tree for tree in trees]
    found = [path.parents[1] for root in roots for path in sorted(root.glob("*/configs/*.yaml"))]
    folders = list(dict.fromkeys(found))
    if not folders:
        raise ConfigError(
            f"there are no servers in {', '.join(map(shown, roots))}",
            hint="palestra init my_env makes one",
        )
    return folders


def _tested(folders: Sequence[Path], args: TestArgs) -> int:
    reports = asyncio.run(_reports(folders, args))
    if args.as_json:
        say(orjson.dumps([_as_json(r) for r in reports], option=orjson.OPT_INDENT_2).decode())
    else:
        _show(reports)
    failed = [report for report in reports if not report.passed]
    if not failed:
        return 0
    names = ", ".join(report.folder.name for report in failed)
    notice(f"error: {len(failed)} of {len(reports)} do not pass: {names}")
    return RunFailed.exit_code


async def _reports(folders: Sequence[Path], args: TestArgs) -> list[FolderReport]:
    # Making a server, to hold rows to its models, is its author's code too.
    tell_guard(
        limit_s=args.timeout_s,
        limit_of="a folder",
        hint="make that line return, or raise --timeout",
    )
    async with beating():
        return [await _report(folder, args, name=len(folders) > 1) for folder in folders]


async def _report(folder: Path, args: TestArgs, *, name: bool) -> FolderReport:
    with starting_within(args.timeout_s, "--timeout=<seconds>"):
        report = await check_folder(
            folder,
            timeout_s=args.timeout_s,
            data=args.data and folder.parent.name == RESOURCES,
            fresh=args.fresh,
        )
    if name:
        notice(f"{folder.name}: {'passed' if report.passed else 'failed'}")
    return report


def _show(reports: Sequence[FolderReport]) -> None:
    for report in reports:
        if report.output:
            say(report.output)
    print_table(
        ("server", "check", "result", "note"),
        [
            (
                report.folder.name if number == 0 else "",
                check.name,
                "passed" if check.passed else "failed",
                check.note,
            )
            for report in reports
            for number, check in enumerate(report.checks)
        ],
    )
    seconds = sum(report.seconds for report in reports)
    passed = sum(report.passed for report in reports)
    say(f"{passed} of {len(reports)} pass, in {seconds:.1f} s")


def _as_json(report: FolderReport) -> dict[str, Any]:
    return {
        "folder": str(report.folder),
        "passed": report.passed,
        "seconds": round(report.seconds, 3),
        "checks": [
            {"check": check.name, "passed": check.passed, "note": check.note}
            for check in report.checks
        ],
    }


def _shipped_skills() -> Path:
    """The folder of the skills: in the wheel within the package, in a checkout beside `src`."""
    places = (PACKAGE_ROOT / "skills", PACKAGE_ROOT.parents[1] / "skills")
    return next(place for place in places if place.is_dir())


def install_skills(folder: Path, *, overwrite: bool) -> int:
    """Copy every skill into a project. Raises ConfigError when a file there is another one, and copies nothing."""
    source = _shipped_skills()
    texts = {
        folder / path.relative_to(source): path.read_bytes()
        for path in sorted(source.rglob("*.md"))
    }
    changed = [path for path, text in texts.items() if path.exists() and path.read_bytes() != text]
    if changed and not overwrite:
        raise ConfigError(
            f"{len(changed)} files of the skills are there, and are not the same: "
            + ", ".join(map(shown, changed)),
            hint="--overwrite replaces them; or name another folder",
        )
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    for skill in sorted({path.relative_to(folder).parts[0] for path in texts}):
        say(f"  {shown(folder / skill)}")
    return 0

"""`init` and `test`: make and check an environment's folder. `skills install`: copy the skills."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from palestra.api import EXAMPLE_ROLLOUTS, find_subject
from palestra.authoring import Check, FolderReport, check_folder
from palestra.cli.console import in_words_called, notice, say, say_json
from palestra.cli.file_tests import FileSubject, file_subject, report_of_file
from palestra.cli.guard import tell_guard
from palestra.cli.tables import print_table
from palestra.config import (
    PACKAGE_ROOT,
    SERVER_TREES,
    NamedFile,
    ServerType,
    did_you_mean_path,
    extra_roots,
    load_config,
    nearest,
    project_root,
    renamed,
)
from palestra.conformance import ExaminedEnvironment
from palestra.datasets import metrics_of
from palestra.errors import ConfigError, Phrase, RunFailed, require_extra
from palestra.fleet import assembled, build_server, server_client, starting_within
from palestra.programs import command_words, typed_program
from palestra.schema import (
    CREATE_PARAMS,
    FunctionCall,
    JsonDict,
    JsonObject,
    OutputMessage,
    Response,
    RunRequest,
    VerifyResponse,
    encode_json,
    response_of,
    to_plain,
)
from palestra.server import EnvironmentServer, ResourcesServer, TurnsServer
from palestra.settings import (
    EntrypointArgs,
    TestArgs,
    args_from,
    existing_path,
    load,
)
from palestra.system import beating, shown

if TYPE_CHECKING:
    from palestra.testing import ScriptedModel

LOCAL = "responses_api_models/local_model/configs/local_model.yaml"
AWARDS = "[[A=B]]"
MOST_TOKENS = 64
_TOLD = {"gold": "the declared right answer", "local_model": "the local model"}


def record(name: str) -> list[str]:
    """Record one environment; return one line for each rollout: its row, its reward, and who
    answered.

    Writes `data/example_rollouts.jsonl` and `data/example_metrics.json`. A rollout goes through the
    environment's own agent. The model answers with the row's `gold_response`, else with the first
    right answer of `data/verifier_cases.jsonl`. When the gold calls no tools, a right answer that
    calls tools comes before it. `recorded_with` is then `gold`. The local model answers a row that
    has no right answer, and `recorded_with` is `local_model`. A judge, where the environment has
    one, always awards.
    """
    subject = find_subject(name, [], notice)
    folder = subject.config.instance(subject.name).folder
    if folder is None:
        raise ConfigError(
            f"the example data of {name} cannot be recorded: it is stored in the environment's "
            "folder, and this environment has none",
            hint="make a folder for the environment with `palestra init`",
        )
    rollouts = asyncio.run(_recorded(subject))
    lines = b"".join(encode_json(row) + b"\n" for row in rollouts)
    (folder / "data" / EXAMPLE_ROLLOUTS).write_bytes(lines)
    _write_metrics(subject, folder / "data")
    return [
        f"row {row['_ng_task_index']}: reward {row['reward']:g}, from {_TOLD[row['recorded_with']]}"
        for row in rollouts
    ]


def _write_metrics(subject: ExaminedEnvironment, data: Path) -> None:
    dataset = _dataset(subject)
    metrics = {**dataset, **metrics_of(subject.rows)}
    (data / "example_metrics.json").write_text(json.dumps(metrics, indent=4) + "\n")


def _dataset(subject: ExaminedEnvironment) -> JsonDict:
    for agent in subject.config.instances_of(ServerType.AGENT):
        for dataset in agent.datasets:
            if dataset.get("type") == "example":
                return dict(dataset)
    return {}


async def _recorded(subject: ExaminedEnvironment) -> list[JsonDict]:
    from palestra.testing import ScriptedModel  # it needs pytest, which only an extra brings

    instance = subject.config.instance(subject.name)
    server = build_server(instance, server_client({}, {}))
    if not isinstance(server, ResourcesServer):
        raise ConfigError(f"{subject.name} is not a resources server")
    rows = []
    for number, row in enumerate(subject.rows):
        gold = _gold(subject, server, number, row)
        if gold is None:
            result = await _run(subject, row, None)
        else:
            turns = _turns(gold, takes_turns=_takes_turns(server))
            result = await _run(subject, row, ScriptedModel.saying(*turns, *[AWARDS] * 4))
        kind = "local_model" if gold is None else "gold"
        rows.append(
            {"_ng_task_index": number, "_ng_rollout_index": 0, **result, "recorded_with": kind}
        )
    return rows


def _gold(
    subject: ExaminedEnvironment, server: ResourcesServer, number: int, row: JsonObject
) -> Response | None:
    right = [case.response for case in subject.cases if case.number == number and case.reward > 0]
    gold = server.gold_response(row)
    if gold is None or not _calls(gold):
        # A right answer that comes by its tools shows more than one that knows.
        gold = next(filter(_calls, right), gold)
    return right[0] if gold is None and right else gold


def _takes_turns(server: ResourcesServer) -> bool:
    if isinstance(server, EnvironmentServer):
        return server.definition().takes_turns
    return isinstance(server, TurnsServer)


def _calls(response: Response) -> bool:
    return any(isinstance(item, FunctionCall) for item in response.output)


def _turns(gold: Response, *, takes_turns: bool) -> list[Response]:
    """Split the gold into the turns of a model: first the calls, then the message.

    With `takes_turns`, each item is one turn.
    """
    if takes_turns:
        return [response_of(item) for item in gold.output]
    calls = [item for item in gold.output if isinstance(item, FunctionCall)]
    messages = [item for item in gold.output if isinstance(item, OutputMessage)]
    if not calls:
        return [gold]
    return [response_of(*calls), response_of(*messages)]


async def _run(
    subject: ExaminedEnvironment, row: JsonObject, model: "ScriptedModel | None"
) -> JsonDict:
    """Run one rollout through the environment's agent. Without `model`, the local model answers."""
    instance = subject.config.instance(subject.name)
    if instance.folder is None:
        raise ConfigError(f"{subject.name} has no folder")
    config_path = instance.folder / "configs" / f"{instance.folder.name}.yaml"
    paths = [str(config_path), *([] if model else [LOCAL])]
    config = load_config(
        config_paths=paths, cwd=instance.folder.parents[1], required=(), use_env_yaml=False
    )
    models = {
        name: model
        for instance in config.instances.values()
        for name in instance.referenced(ServerType.MODEL)
        if model is not None
    }
    if model is None:
        params = {**row[CREATE_PARAMS], "max_output_tokens": MOST_TOKENS, "temperature": 0.0}
        row = {**row, CREATE_PARAMS: params}
    async with assembled(config, list(config.instances), models) as assembly:
        (agent,) = config.instances_of(ServerType.AGENT)
        body = RunRequest.model_validate(row)
        answer = await assembly.client.peer(agent.name).call("/run", body, VerifyResponse)
        reference = {"type": str(agent.type), "name": agent.name}
        return {**to_plain(answer), "agent_ref": reference}


DEV_TEST_S = 24 * 3600.0
"""The timeout of palestra's own tests, in seconds."""

RESOURCES = "resources_servers"
README = "README.md"


def entrypoint_of(overrides: list[str]) -> EntrypointArgs:
    """Return the folder that an `ng_*` command names."""
    config = load(overrides, ng=True, require_all=False)
    return args_from(EntrypointArgs, config.tree, hint="+entrypoint=resources_servers/my_env")


def test_servers(args: TestArgs) -> int:
    """Test every folder and print the table; exit 1 when any check of any folder failed."""
    folders = [_test_subject(name) for name in args.names] if args.names else _all((RESOURCES,))
    if args.record:
        for folder in folders:
            if isinstance(folder, NamedFile):
                raise ConfigError(
                    f"--record: {folder} has no folder for recorded examples",
                    hint=f"palestra init --from {folder} makes one",
                )
            require_extra("pytest", extra="testing", what="palestra test --record")
            notice(f"{folder.name}: recorded")
            for line in record(str(folder)):
                notice(f"  {line}")
    return _tested(folders, args)


def _test_subject(name: str) -> NamedFile | Path:
    """Return the file or the folder that a user named. Raises ConfigError: it does not exist."""
    file = NamedFile.parse(name)
    if file is None:
        return server_folder(name)
    if not existing_path(file.path).is_file():
        raise ConfigError(
            f"{file.path} does not exist{did_you_mean_path(existing_path(file.path))}"
        )
    return file


def ng_test(overrides: list[str]) -> int:
    """Run `ng_test +entrypoint=resources_servers/my_env`."""
    args = entrypoint_of(overrides)
    file = existing_path(args.entrypoint)
    if file.is_file() and file.parent.parent.name in SERVER_TREES:
        folder = Path(args.entrypoint).parent
        raise ConfigError(
            f"+entrypoint={args.entrypoint} is a file, and the tests are of its folder",
            hint=f"+entrypoint={folder}",
        )
    names = (args.entrypoint,)
    return test_servers(TestArgs(names=names, data=args.should_validate_data, fresh=False))


def ng_test_all() -> int:
    """Run `ng_test_all`: test every server of the three trees that has a README."""
    return _tested(documented_servers(), TestArgs(fresh=False))


def documented_servers() -> list[Path]:
    """Return the folders of all servers of the three trees that have a README. Print a line about each
    server without one.

    Raises ConfigError: no server has a README.
    """
    folders = _all(SERVER_TREES)
    documented = [folder for folder in folders if (folder / README).exists()]
    test_one = f"{command_words('test', typed_program())} +entrypoint="
    if not documented:
        raise ConfigError(
            f"no server has a {README}: " + ", ".join(map(shown, folders)),
            hint=f"write one in each folder; to test one without it: {test_one}{shown(folders[0])}",
        )
    for folder in folders:
        if folder not in documented:
            notice(
                f"skipped {shown(folder)}: it has no {README}; {test_one}{shown(folder)} tests it"
            )
    return documented


def ng_dev_test() -> int:
    """Run `ng_dev_test`: palestra's own tests, which only a checkout of palestra contains: the one
    that is installed, or the working directory.
    """
    import sys

    from palestra.system import run

    checkouts = [root for root in (PACKAGE_ROOT.parents[1], Path.cwd()) if _is_checkout(root)]
    if not checkouts:
        raise ConfigError(
            "palestra's own tests are not installed", hint="run it in a checkout of palestra"
        )
    if find_spec("pytest") is None:
        raise ConfigError(
            "palestra's own tests need packages that are not installed",
            hint="`make test` in the checkout installs them and runs the tests",
        )
    command = [sys.executable, "-m", "pytest", "-m", "not slow", str(checkouts[0] / "tests")]
    ended_process = run(command, cwd=checkouts[0], timeout_s=DEV_TEST_S, inherits_output=True)
    return ended_process.code


def _is_checkout(folder: Path) -> bool:
    return (folder / "tests").is_dir() and (folder / "src" / "palestra").is_dir()


def server_folder(folder_name: str) -> Path:
    """Return the server's folder for a name or a path; the project is searched before the package."""
    cwd = Path.cwd()
    roots = dict.fromkeys((*extra_roots(), cwd, project_root(cwd) or cwd, PACKAGE_ROOT))
    folders = [root / way for root in roots for way in (folder_name, f"{RESOURCES}/{folder_name}")]
    for candidate in (*folders, existing_path(folder_name)):
        if (candidate / "app.py").exists() or (candidate / "configs").is_dir():
            if (newer := renamed(folder_name)) and candidate.name == Path(newer.new).name:
                notice(f"warning: {newer}")
            return candidate
    first = Path(folder_name).parts[:1]
    tree = first[0] if first and first[0] in SERVER_TREES else RESOURCES
    apps = (app for root in roots for app in (root / tree).glob("*/app.py"))
    if (file := Path(f"{folder_name}.py")).is_file():
        raise ConfigError(f"{folder_name} is not a server's folder; did you mean {str(file)!r}?")
    near = nearest(Path(folder_name).name, {app.parent.name for app in apps})
    raise ConfigError(
        f"{folder_name} is not a server's folder" + (f"; did you mean {near!r}?" if near else ""),
        hint="a folder like resources_servers/my_env, with app.py in it",
    )


def _all(trees: Sequence[str]) -> list[Path]:
    """Return the folders of all servers of the project, or of the package when the project has no
    `trees`. A folder of the project with an `app.py` is a server's also without a config.
    """
    local_trees = [Path.cwd() / tree for tree in trees if (Path.cwd() / tree).is_dir()]
    roots = local_trees or [PACKAGE_ROOT / tree for tree in trees]
    folders = list(
        dict.fromkeys(
            folder
            for root in roots
            for folder in sorted({path.parent for path in root.glob("*/*")})
            if any(folder.glob("configs/*.yaml")) or (local_trees and (folder / "app.py").is_file())
        )
    )
    if not folders:
        raise ConfigError(
            f"there are no servers in {', '.join(map(shown, roots))}",
            hint="`palestra init` makes one",
        )
    return folders


Tested = Path | NamedFile
"""What is tested: a server's folder, or an environment in one file."""


def tested(folders: Sequence[Tested], args: TestArgs) -> list[FolderReport]:
    """Test the folders and files, print the results, and return them."""
    subjects = {item: file_subject(item) for item in folders if isinstance(item, NamedFile)}
    reports = asyncio.run(_reports(folders, subjects, args))
    if args.as_json:
        say_json([_as_json(r) for r in reports])
    else:
        _show(reports)
    return reports


def _tested(folders: Sequence[Tested], args: TestArgs) -> int:
    reports = tested(folders, args)
    failed = [report for report in reports if not report.passed]
    if not failed:
        return 0
    names = ", ".join(report.folder.name for report in failed)
    notice(f"error: {len(failed)} of {len(reports)} servers do not pass their tests: {names}")
    return RunFailed.exit_code


async def _reports(
    folders: Sequence[Tested], subjects: Mapping[NamedFile, FileSubject], args: TestArgs
) -> list[FolderReport]:
    # Making a server, to hold rows to its models, is its author's code too.
    tell_guard(
        limit_s=args.timeout_s,
        limit_of="a folder",
        hint="find out why that line does not return, or wait longer: "
        "`palestra test --timeout SECONDS`",
    )
    async with beating():
        return [await _report(item, subjects, args, name=len(folders) > 1) for item in folders]


async def _report(
    item: Tested, subjects: Mapping[NamedFile, FileSubject], args: TestArgs, *, name: bool
) -> FolderReport:
    with starting_within(args.timeout_s, "--timeout=<seconds>"):
        if isinstance(item, NamedFile):
            report = await report_of_file(item, subjects[item], timeout_s=args.timeout_s)
        else:
            report = await check_folder(
                item,
                timeout_s=args.timeout_s,
                data=args.data and item.parent.name == RESOURCES,
                fresh=args.fresh,
                readme=args.data,
            )
    if name:
        notice(f"{report.folder.name}: {'passed' if report.passed else 'failed'}")
    return report


def _result_of(check: Check) -> str:
    if not check.is_checked:
        return "not checked"
    return "passed" if check.passed else "failed"


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
                _result_of(check),
                _in_words_called(check.note),
            )
            for report in reports
            for number, check in enumerate(report.checks)
        ],
    )
    seconds = sum(report.seconds for report in reports)
    passed = sum(report.passed for report in reports)
    say(f"{passed} of {len(reports)} pass, in {seconds:.1f} s")


def _in_words_called(note: str) -> str:
    """Return the note of a check for the users of the program. Only a phrase has commands."""
    return in_words_called(note) if isinstance(note, Phrase) else note


def _as_json(report: FolderReport) -> JsonDict:
    return {
        "folder": str(report.folder),
        "passed": report.passed,
        "seconds": round(report.seconds, 3),
        "checks": [
            {
                "check": check.name,
                "passed": check.passed,
                "checked": check.is_checked,
                "note": check.note,
            }
            for check in report.checks
        ],
    }


def _shipped_skills() -> Path:
    """Return the folder of the skills: inside the package in a wheel, beside `src` in a checkout."""
    candidates = (PACKAGE_ROOT / "skills", PACKAGE_ROOT.parents[1] / "skills")
    return next(candidate for candidate in candidates if candidate.is_dir())


def install_skills(folder: Path, *, overwrite: bool) -> int:
    """Copy every skill into `folder`.

    Raises ConfigError, and copies nothing: `folder` is a file, or a file exists there with another
    content and `overwrite` is not set.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{shown(folder)} is a file", hint="name a folder")
    source = _shipped_skills()
    texts = {
        folder / path.relative_to(source): path.read_bytes()
        for path in sorted(source.rglob("*.md"))
    }
    changed = [path for path, text in texts.items() if path.exists() and path.read_bytes() != text]
    if changed and not overwrite:
        raise ConfigError(
            f"{len(changed)} files of the skills exist already, with other content: "
            + ", ".join(map(shown, changed)),
            hint="replace them with --overwrite, or name another folder",
        )
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    for skill in sorted({path.relative_to(folder).parts[0] for path in texts}):
        say(f"  {shown(folder / skill)}")
    return 0

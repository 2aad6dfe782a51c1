"""`test`: check the files of a server's folder and run its tests.

It also checks that the recorded example files still fit the server's code after an edit.
"""

import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import ValidationError

from palestra.config import InstanceConfig, ServerType, load_config
from palestra.datasets import (
    DoorKeeper,
    RowEndpoint,
    differences,
    doors_in,
    metrics_of,
    rows_are_whole,
)
from palestra.errors import InputDataError, Phrase
from palestra.fleet import build_server, cache_root, interpreter_for, place_on, server_client
from palestra.schema import (
    CREATE_PARAMS,
    JsonDict,
    JsonObject,
    ResponseCreateParams,
    finite_reward,
    plain_input,
    read_jsonl,
)
from palestra.server import Server
from palestra.system import end_group, start

MOST_TOLD: Final = 5
_RECORD: Final = "palestra test --record records them anew"


def rejected_rows(folder: Path, rows: Sequence[JsonObject]) -> str:
    """Return which rows the environment's own request models reject, and why; empty when they
    accept all.
    """
    keeper = DoorKeeper(list(_doors(folder)))
    rejections = [
        f"row {number}: {problem}"
        for number, row in enumerate(rows)
        for problem in keeper.problems(row)
    ]
    count_left = f"; and {len(rejections) - MOST_TOLD} more" if len(rejections) > MOST_TOLD else ""
    return "; ".join(rejections[:MOST_TOLD]) + count_left


def foreign_rollouts(rollouts: Sequence[JsonObject], rows: Sequence[JsonObject]) -> str:
    """Return which rollouts have a prompt that is in none of `rows`; empty when there are none."""
    prompts = [_messages(row) for row in rows]
    foreign = [
        number
        for number, rollout in enumerate(rollouts)
        # An environment that takes turns puts its opening behind the prompt.
        if not any(_messages(rollout)[: len(prompt)] == prompt for prompt in prompts)
    ]
    if not foreign:
        return ""
    which = ", ".join(map(str, foreign[:MOST_TOLD]))
    return f"rollouts of none of the rows in example.jsonl: {which}; {_RECORD}"


def _messages(row: JsonObject) -> list[Any]:
    params = row.get(CREATE_PARAMS)
    messages = plain_input(params.get("input")) if isinstance(params, Mapping) else None
    return messages if isinstance(messages, list) else [messages]


def _doors(folder: Path) -> Iterator[RowEndpoint]:
    """Yield the endpoints that the folder's environment publishes; none when it cannot be built
    here.

    It may need packages that only its own interpreter has. Its tests then report the problem.
    """
    try:
        config = load_config(
            config_paths=[str(folder / "configs" / f"{folder.name}.yaml")],
            cwd=folder.parents[1],
            required=(),
            use_env_yaml=False,
        )
        instances = [i for i in config.instances_of(ServerType.RESOURCES) if i.folder == folder]
        servers = [
            (instance, build_server(instance, server_client({}, {}))) for instance in instances
        ]
        agents = config.instances_of(ServerType.AGENT)
        for instance, server in servers:
            is_whole = all(
                _publishes_whole_rows(agent) for agent in agents if _names(agent, instance.name)
            )
            yield from _published(server, instance.name, are_whole=is_whole)
    except Exception:  # whatever an author's code raises, its tests tell it better
        return


def _published(server: Server, name: str, *, are_whole: bool) -> list[RowEndpoint]:
    document = server.setup_webserver().openapi()
    return doors_in(document, name, ("/seed_session", "/verify"), are_whole=are_whole)


def _names(agent: InstanceConfig, environment: str) -> bool:
    return any(ref.name == environment for ref in agent.refs)


def _publishes_whole_rows(agent: InstanceConfig) -> bool:
    environments = agent.referenced(ServerType.RESOURCES)
    return rows_are_whole(is_shipped=agent.is_shipped, environments=environments)


EXAMPLES: Final = 5
COMPAT: Final = "palestra.compat.nemo_gym"
STACKS_WITHIN_S: Final = 2.0
NO_TESTS: Final = 5
"""pytest's exit code when it found no tests."""
_OF_A_PYTEST: Final = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_")
"""Prefixes of the variables that pytest sets for itself. The user's PYTEST_ADDOPTS is not one of
them."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. `note` is what is wrong, or a short summary of the finding."""

    name: str
    passed: bool
    note: str = ""
    is_checked: bool = True
    """False: there was nothing to check, as `note` says."""


@dataclass(frozen=True, slots=True)
class FolderReport:
    """The results of all checks of one folder."""

    folder: Path
    checks: tuple[Check, ...]
    seconds: float
    output: str = ""
    """What pytest printed, when its tests failed."""
    exit_code: int = 0
    """pytest's exit code; 1 when there are no tests or they did not end in time."""

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)


async def check_folder(
    folder: Path,
    *,
    timeout_s: float = 600.0,
    data: bool = True,
    fresh: bool = True,
    readme: bool = True,
) -> FolderReport:
    """Run the folder's tests in its own environment and check its files.

    `data`: whether the folder must have example rows, their metrics and their rollouts, as an
    environment must. `fresh`: whether the rows must fit the current request models, and the
    rollouts the rows. `readme`: whether the folder must have a README.
    """
    began = time.monotonic()
    tests = await _tests(folder, timeout_s)
    checks = [tests.check, *([_readme(folder)] if readme else [])]
    fresh = fresh and not tests.is_late  # making its server may not end either
    if data:
        looks: Sequence[tuple[str, Callable[[Path], str]]] = (
            ("example.jsonl", partial(_examples, fresh=fresh)),
            ("example_metrics.json", _metrics),
            ("example_rollouts.jsonl", partial(_rollouts, fresh=fresh)),
            ("no conflicts", _conflicts),
        )
        checks += [_looked(name, check, folder / "data") for name, check in looks]
    seconds = time.monotonic() - began
    return FolderReport(folder, tuple(checks), seconds, tests.output, tests.exit_code)


@dataclass(frozen=True, slots=True)
class _TestRun:
    """How the tests of a folder ended. `is_late`: they did not end in time; the server's code may
    hang too.
    """

    check: Check
    output: str = ""
    is_late: bool = False
    exit_code: int = 1


async def check_file(
    path: Path, earlier_checks: Sequence[Check], *, timeout_s: float
) -> FolderReport:
    """Run the tests beside an environment in one file. `earlier_checks`: the checks of it that are done.

    Its tests are in `test_<name>.py`, in the same folder or in its folder `tests`.
    """
    began = time.monotonic()
    name = f"test_{path.stem}.py"
    candidates = (path.with_name(name), path.parent / "tests" / name)
    tests = await asyncio.to_thread(_first_file, candidates)
    if tests is None:
        note = f"there are none; {name} beside the file would be run"
        run = _TestRun(Check("tests", passed=True, note=note), exit_code=0)
    else:
        run = await _run_tests(path, tests.relative_to(path.parent), timeout_s)
    seconds = time.monotonic() - began
    return FolderReport(path, (*earlier_checks, run.check), seconds, run.output, run.exit_code)


def _first_file(candidates: Sequence[Path]) -> Path | None:
    return next((target for target in candidates if target.is_file()), None)


async def _tests(folder: Path, timeout_s: float) -> _TestRun:
    if not await asyncio.to_thread(_has_tests, folder):
        return _TestRun(
            Check("tests", passed=False, note="there are none: write tests/test_app.py")
        )
    return await _run_tests(folder, Path(), timeout_s)


async def _run_tests(target: Path, tests: Path, timeout_s: float) -> _TestRun:
    """Run the tests of a server's folder, or of an environment's file, in its own environment."""
    folder = target.parent if target.suffix == ".py" else target
    python = await interpreter_for(target, cache=cache_root())
    if python == Path(sys.executable) and not _has("pytest"):
        note = "pytest is not installed: pip install 'palestra[testing]'"
        return _TestRun(Check("tests", passed=False, note=note))
    plugins = ["-p", COMPAT] if _has(COMPAT) else []
    # Not -q, which counts together with one in the `addopts` of a project: pytest then prints no
    # summary.
    quiet = "--verbosity=-1"
    pytest = ["-X", "faulthandler", "-m", "pytest", quiet, "-p", "no:cacheprovider"]
    command = [str(python), *pytest, *plugins, str(tests)]
    # Not a pipe, which what has left the group of the tests may hold open for ever.
    with tempfile.TemporaryFile() as output:
        process = start(
            command,
            cwd=folder,
            env=_environment(folder if target is not folder else folder.parents[1]),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            if is_late := not await _ends_within(process, timeout_s):
                await _show_stacks(process)
        finally:
            end_group(process.pid)  # whatever the tests have started goes with them
            await _ends_within(process, STACKS_WITHIN_S)
        code = process.returncode
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if is_late:
        return _TestRun(Check("tests", passed=False, note=_lateness(text, timeout_s)), is_late=True)
    if code == 0:
        return _TestRun(Check("tests", passed=True, note=_summary(text)), exit_code=0)
    note = _summary(text) or ("there are none" if code == NO_TESTS else f"pytest ended with {code}")
    return _TestRun(Check("tests", passed=False, note=note), text, exit_code=code or 1)


async def _ends_within(process: "subprocess.Popen[bytes]", limit_s: float) -> bool:
    try:
        await asyncio.to_thread(process.wait, limit_s)
    except subprocess.TimeoutExpired:
        return False
    return True


async def _show_stacks(process: "subprocess.Popen[bytes]") -> None:
    """Make the tests' process print the stacks of its threads and end, even when it hangs."""
    with suppress(ProcessLookupError):
        if sys.platform == "linux":
            resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        os.kill(process.pid, signal.SIGABRT)
    await _ends_within(process, STACKS_WITHIN_S)


def _lateness(printed: str, timeout_s: float) -> str:
    author = place_on(printed)
    where = f": it was{author.in_sentence()}" if author.file else ""
    return Phrase(
        "not done within {seconds} s (`palestra test --timeout`){where}",
        seconds=f"{timeout_s:g}",
        where=where,
    )


def _has_tests(folder: Path) -> bool:
    return any((folder / "tests").glob("**/test_*.py")) or any(folder.glob("test_*.py"))


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _environment(root: Path) -> dict[str, str]:
    """Return the environment variables of the tests: the project's root is importable, as in a
    server.
    """
    package_root = Path(sys.modules["palestra"].__path__[0]).parent
    paths = [str(root), str(package_root), os.environ.get("PYTHONPATH", "")]
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_OF_A_PYTEST)
    }
    return {**inherited, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _summary(text: str) -> str:
    """Return pytest's last summary, such as `3 passed in 0.12s`; empty when `text` has none."""
    summaries = re.findall(r"^=*\s*((?:\d+ \w+,? ?)+ in [\d.]+s)", text, re.MULTILINE)
    return str(summaries[-1]) if summaries else ""


def _readme(folder: Path) -> Check:
    path = folder / "README.md"
    has_text = path.exists() and bool(path.read_text(encoding="utf-8").strip())
    return Check("README.md", passed=has_text, note="" if has_text else "is missing or empty")


def _looked(name: str, check: Callable[[Path], str], data: Path) -> Check:
    try:
        problem = check(data)
    except FileNotFoundError:
        problem = "is missing"
    except (InputDataError, orjson.JSONDecodeError, OSError) as error:
        problem = str(error)
    return Check(name, passed=not problem, note=problem)


def _rows(path: Path) -> list[JsonDict]:
    if not path.exists():
        raise FileNotFoundError(path)
    return [line.row for line in read_jsonl(path)]


def _examples(data: Path, *, fresh: bool) -> str:
    rows = _rows(data / "example.jsonl")
    if len(rows) != EXAMPLES:
        return f"has {len(rows)} rows, and must have {EXAMPLES}"
    problems = [
        f"row {number}: {problem}" for number, row in enumerate(rows) if (problem := _invalid(row))
    ]
    return "; ".join(problems) or (rejected_rows(data.parent, rows) if fresh else "")


def _invalid(row: JsonDict) -> str:
    if CREATE_PARAMS not in row:
        return f"has no {CREATE_PARAMS}"
    try:
        ResponseCreateParams.model_validate(row[CREATE_PARAMS])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def _metrics(data: Path) -> str:
    path = data / "example_metrics.json"
    if not path.exists():
        return Phrase("is missing; `palestra prepare` writes it")
    stored = orjson.loads(path.read_bytes())
    if not isinstance(stored, dict):
        return "is not a JSON object"
    if not (data / "example.jsonl").exists():
        return "example.jsonl, whose rows it counts, is missing"
    return "; ".join(differences(stored, metrics_of(_rows(data / "example.jsonl")))[:5])


def _rollouts(data: Path, *, fresh: bool) -> str:
    rows = _rows(data / "example_rollouts.jsonl")
    if len(rows) != EXAMPLES:
        return f"has {len(rows)} rollouts, and must have {EXAMPLES}"
    bad = [n for n, row in enumerate(rows) if finite_reward(row.get("reward")) is None]
    if bad:
        return f"rows without a reward: {', '.join(map(str, bad))}"
    if not (data / "example.jsonl").exists():
        return "example.jsonl, whose rows they must be of, is missing"
    return foreign_rollouts(rows, _rows(data / "example.jsonl")) if fresh else ""


def _conflicts(data: Path) -> str:
    return ", ".join(sorted(path.name for path in data.glob("*conflict*")))

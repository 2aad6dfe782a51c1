"""Benchmarks: datasets of type benchmark, and the scripts that write their files.

A `prepare_script` is a Python file with a function `prepare()`. The function writes the rows to the
dataset's file and returns the path of that file. Each script runs in its own process, so its side
effects end with it.
"""

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from palestra.datasets.preparing.files import Located
from palestra.datasets.problems import RowProblems
from palestra.datasets.prompts import PromptTemplate, fill_row, load_prompt
from palestra.datasets.row_checks import RowCheck
from palestra.datasets.scripts import Scripts
from palestra.errors import ConfigError, InputDataError, RunFailed
from palestra.schema import JsonObject, Line, read_jsonl

MOST_OUTPUT: Final = 400
"""The maximum number of characters shown of a failed script's last line."""
_EXCEPTION: Final = re.compile(r"[\w.]+(?:Error|Exception|Timeout|Found): ")
_NO_NETWORK: Final = re.compile(
    r"Name or service not known|name resolution|getaddrinfo|Network is unreachable"
    r"|No route to host|Connection(?: was)? refused|ConnectionError|ConnectTimeout|ProxyError"
    r"|Max retries exceeded|Couldn't reach|LocalEntryNotFound|[Oo]ffline mode"
)


@dataclass(frozen=True, slots=True)
class Preparing:
    """The settings for preparing benchmarks. `place`: maps a path from the configuration to a path
    on disk.
    """

    place: Callable[[str], Path]
    arguments: JsonObject = field(default_factory=dict)
    """The arguments of every `prepare()` call."""
    use_cached: bool = False
    """Skip the script of a benchmark whose file already exists."""
    at_once: int = 1
    timeout_s: float = 3600.0
    config: JsonObject | None = None
    """The configuration that scripts can read, such as `hf_token`; None: they have none."""
    mask: Callable[[str], str] = str
    """Removes secrets from a script's output before any of it is shown."""


def prepare_benchmarks(
    benchmarks: Sequence[Located], how: Preparing, *, report: Callable[[str], None]
) -> dict[Path, int]:
    """Prepare all benchmarks, check every row, and return the number of rows of each file.

    Raises RunFailed or InputDataError at the end, with all failures in one message.
    """
    todo = list({benchmark.path: benchmark for benchmark in benchmarks}.values())
    rows_of_file: dict[Path, int] = {}
    failures: list[str] = []
    hints: dict[str, None] = {}
    ran_wrong = False
    with ThreadPoolExecutor(how.at_once) as threads, Scripts() as scripts:
        futures = [
            (benchmark, threads.submit(_prepared, benchmark, how, scripts, report))
            for benchmark in todo
        ]
        for benchmark, future in futures:
            try:
                rows_of_file[benchmark.path] = future.result()
            except (RunFailed, InputDataError, ConfigError) as error:
                failures.append(f"{benchmark.dataset}: {error.message}")
                if error.hint:
                    hints[error.hint] = None
                ran_wrong = ran_wrong or isinstance(error, RunFailed)
    if failures:
        raise (RunFailed if ran_wrong else InputDataError)(
            "\n".join(failures), hint="; ".join(hints)
        )
    return rows_of_file


def _prepared(
    benchmark: Located, how: Preparing, scripts: Scripts, report: Callable[[str], None]
) -> int:
    if how.use_cached and benchmark.there and not _unfinished(benchmark).exists():
        report(f"{benchmark.dataset}: {benchmark.path} exists already")
    elif benchmark.entry.prepare_script:
        report(f"{benchmark.dataset}: running {benchmark.entry.prepare_script}")
        _run(benchmark, how.place(benchmark.entry.prepare_script), how, scripts)
    elif not benchmark.there:
        raise InputDataError(
            f"{benchmark.path} does not exist, and the dataset has no prepare_script that makes it"
        )
    prompt = benchmark.entry.prompt_config
    return checked_rows(benchmark.path, load_prompt(how.place(prompt)) if prompt else None)


def _run(benchmark: Located, script: Path, how: Preparing, scripts: Scripts) -> None:
    """Run a benchmark's script. Raises RunFailed with the script's last output: the script failed,
    timed out, or did not write the file.
    """
    if not script.is_file():
        raise ConfigError(f"prepare_script {script} does not exist")
    answer = _unfinished(benchmark)
    answer.parent.mkdir(parents=True, exist_ok=True)
    answer.touch()
    process = scripts.run(script, how.arguments, answer, timeout_s=how.timeout_s, config=how.config)
    if process.exit_code is None:
        raise RunFailed(f"{script} did not end within {how.timeout_s:g} s")
    if process.exit_code:
        raise _script_failed(benchmark, script, how.mask(process.printed), process.exit_code)
    written = json.loads(answer.read_text())
    if written is None or how.place(written).resolve() != benchmark.path.resolve():
        raise RunFailed(
            f"prepare() of {script} returned {written!r}, but jsonl_fpath is "
            f"{benchmark.entry.jsonl_fpath}",
            hint="prepare() must return the path of the file that it makes",
        )
    if not benchmark.there:
        raise RunFailed(f"prepare() of {script} has not made {benchmark.path}")
    answer.unlink()


def _script_failed(benchmark: Located, script: Path, printed: str, exit_code: int) -> RunFailed:
    """Return the error for a failed script: its last line, the location in the script, and advice.
    The whole output goes to a log file.
    """
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    # The text of an exception may go on for lines after the one that names it.
    errors = [line for line in lines if _EXCEPTION.match(line)]
    last = (errors or lines or ["it printed nothing"])[-1].strip()
    last_line = last if len(last) <= MOST_OUTPUT else f"{last[:MOST_OUTPUT]}…"
    numbers = re.findall(rf'File "{re.escape(str(script))}", line (\d+)', printed)
    location = f"{script}:{numbers[-1]}" if numbers else str(script)
    log = benchmark.path.with_name(f"{benchmark.path.stem}_prepare.log")
    advice = ""
    with contextlib.suppress(OSError):
        log.write_text(printed, encoding="utf-8", errors="replace")
        advice = f"; all that it printed is in {log}"
    if any(_NO_NETWORK.search(line) for line in lines):
        do = (
            "it cannot reach the network from here: run it where it can, or put the rows at "
            f"{benchmark.path}"
        )
    else:
        do = "correct the script, or what it is called with (+prepare_script_args)"
    return RunFailed(f"{location} ended with exit code {exit_code}: {last_line}", hint=do + advice)


def _unfinished(benchmark: Located) -> Path:
    """Return the path of the file that receives a script's result. While that file exists, the
    dataset file may be incomplete.
    """
    return benchmark.path.with_name(f".{benchmark.path.name}.unfinished")


def checked_rows(path: Path, prompt: PromptTemplate | None) -> int:
    """Check all rows of a file and return their number. Raises InputDataError that lists every bad
    row.
    """
    problems = RowProblems()
    check = RowCheck()
    count = 0
    for line in read_jsonl(path):
        count += 1
        try:
            fills = prompt is not None and isinstance(line.row, dict)
            row = fill_row(prompt, line.row) if prompt is not None and fills else line.row
        except ValueError as error:
            problems.add(path, line.number, str(error))
            continue
        if line.error or not check.passes(row):
            for problem in check.problems(Line(line.number, row, line.error)):
                problems.add(path, line.number, problem)
    problems.raise_if_any()
    if not count:
        raise InputDataError(f"{path} has no rows")
    return count

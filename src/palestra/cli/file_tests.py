"""`test FILE.py`: the rows, the right answers and the tests of an environment in one file."""

from pathlib import Path
from typing import Final

from palestra.api import find_subject
from palestra.authoring import Check, FolderReport, check_file
from palestra.cli.console import hint_of, notice
from palestra.config import NamedFile
from palestra.conformance import (
    CheckResult,
    ExaminationLimits,
    ExaminedEnvironment,
    check_environment,
)
from palestra.errors import BadInput
from palestra.settings import existing_path

STEPS: Final = ("gold", "tools")
"""The checks of `verify-env` that take no time worth mentioning."""


FileSubject = ExaminedEnvironment | Check
"""The environment of a file, or the failed check when it cannot be loaded."""


def file_subject(source_file: NamedFile) -> FileSubject:
    """Return the environment of a file, or the failed check when it cannot be loaded.

    Not for a running event loop: the file may need another interpreter.
    """
    try:
        return find_subject(str(source_file), [], notice)
    except BadInput as error:
        hint = f" ({hint_of(error)})" if error.hint else ""
        return Check("rows", passed=False, note=f"{error.message}{hint}")


async def report_of_file(
    source_file: NamedFile, subject: FileSubject, *, timeout_s: float
) -> FolderReport:
    """Check an environment in one file, and run the tests beside it."""
    path = existing_path(source_file.path).absolute()
    if isinstance(subject, Check):
        return FolderReport(path, (subject,), 0.0)
    checks = [Check("rows", passed=bool(subject.rows), note=_counted(subject, path))]
    if subject.rows:
        limits = ExaminationLimits(timeout_s=min(60.0, timeout_s))
        report = await check_environment(subject, limits, steps=STEPS)
        checks += [_check(result) for result in report.checks]
    return await check_file(path, checks, timeout_s=timeout_s)


def _counted(subject: ExaminedEnvironment, path: Path) -> str:
    return f"{len(subject.rows)} rows" if subject.rows else f"{path.name} has none"


def _check(result: CheckResult) -> Check:
    """Return the result of an examination's check. Without a known right answer there is nothing to
    check, which is no failure here.
    """
    unknown = bool(result.findings) and all(finding.row is None for finding in result.findings)
    notes = [finding.problem for finding in result.findings] or [result.note]
    passed = not result.findings or unknown
    return Check(result.name, passed=passed, note=notes[0], is_checked=not unknown)

"""`palestra doctor tools`: check the tool schemas of a file of rows, and print what is wrong."""

from collections.abc import Iterator
from pathlib import Path

from palestra.causes import Severity
from palestra.cli.console import notice, say, say_json
from palestra.cli.escaping import one_line
from palestra.cli.tables import print_table
from palestra.config import PACKAGE_ROOT, resolve_path
from palestra.doctor import GRAMMARS_EXTRA, ToolCheck, check_tool_schemas, grammar_versions, text_of
from palestra.errors import InputDataError
from palestra.schema import Line, read_jsonl
from palestra.settings import ToolsArgs
from palestra.system import file_and_line, shown


def check_tools(args: ToolsArgs) -> int:
    """Print what is wrong, then `Errors: N`; exit code 1 when there are errors.

    Raises InputDataError: the file, or a line of it, cannot be read.
    """
    file = resolve_path(args.file, Path.cwd(), PACKAGE_ROOT)
    check = check_tool_schemas(_rows(file), source=shown(file), summary_key=args.summary_key)
    if args.as_json:
        say_json(_as_json(check))
    else:
        _print(check)
    return 1 if check.count(Severity.ERROR) else 0


def _rows(file: Path) -> Iterator[Line]:
    try:
        for line in read_jsonl(file):
            if line.error or not isinstance(line.row, dict):
                why = line.error or f"a row should be an object, and is {type(line.row).__name__}"
                raise InputDataError(f"{file_and_line(file, line.number)}: {why}")
            yield line
    except OSError as error:
        raise InputDataError(f"cannot read {shown(file)}: {error.strerror}") from error


def _print(check: ToolCheck) -> None:
    for finding in check.findings():
        if finding.severity is not Severity.NOTE:
            say(text_of(finding, visible=one_line).plain)
    if check.groups:
        print_table(
            ("group", "rows", "rows with errors", "errors", "warnings"),
            [
                (
                    value,
                    group.rows,
                    group.rows_with_errors,
                    group.problems[Severity.ERROR],
                    group.problems[Severity.WARNING],
                )
                for value, group in check.groups.items()
            ],
            right="rows,rows with errors,errors,warnings",
        )
    if not check.compilers:
        notice(
            f"no grammar compiler is installed: pip install 'palestra[{GRAMMARS_EXTRA}]'; rules only"
        )
    with_ = f" with {', '.join(_compilers(check))}" if check.compilers else ""
    say(f"{check.rows} rows, {check.tools} distinct tools, checked by rules{with_}")
    counts = {severity: check.count(severity) for severity in Severity}
    say(f"Warnings: {counts[Severity.WARNING]}, notes: {counts[Severity.NOTE]} (--json shows them)")
    say(f"Errors: {counts[Severity.ERROR]}")


def _compilers(check: ToolCheck) -> list[str]:
    installed = grammar_versions()
    return [f"{name} {installed.get(name, '')}".rstrip() for name in check.compilers]


def _as_json(check: ToolCheck) -> dict[str, object]:
    return {
        "source": check.source,
        "rows": check.rows,
        "tools": check.tools,
        "compilers": _compilers(check),
        "errors": check.count(Severity.ERROR),
        "warnings": check.count(Severity.WARNING),
        "notes": check.count(Severity.NOTE),
        "findings": [finding.as_json() for finding in check.findings()],
        "problems": [
            {
                "cause": problem.cause,
                "severity": problem.severity.value,
                "tool": problem.tool,
                "message": problem.message,
                "line": problem.line,
                "pointer": problem.pointer,
                "rows": problem.rows,
            }
            for problem in check.problems
        ],
        "groups": {
            value: {
                "rows": group.rows,
                "rows_with_errors": group.rows_with_errors,
                "errors": group.problems[Severity.ERROR],
                "warnings": group.problems[Severity.WARNING],
            }
            for value, group in check.groups.items()
        },
    }

"""`verify-env`: test whether an environment's rewards can be trusted."""

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from palestra.api import find_subject, own_overrides
from palestra.cli.console import leave_now, masking, notice, say, say_json
from palestra.cli.guard import tell_guard
from palestra.cli.tables import print_table
from palestra.cli.terminal import is_a_screen
from palestra.conformance import (
    ExaminationLimits,
    ExaminedEnvironment,
    Now,
    VerifierFault,
    VerifierReport,
    check_environment,
    grouped,
)
from palestra.errors import RunFailed
from palestra.schema import JsonObject
from palestra.settings import VerifyEnvArgs
from palestra.system import beating

MOST_LISTED: Final = 3
"""Rows, and kinds of answers, that a line of the table names."""
LOOK_EVERY_S: Final = 0.5
PROGRESS_EVERY_S: Final = 5.0
"""Seconds after which a line says what is being verified, where nothing was printed since."""
LOCKED_AFTER_S: Final = 2.0
"""How many seconds longer than the command itself the guard waits for a verifier."""


def verify_env(args: VerifyEnvArgs, overrides: list[str]) -> int:
    """Examine an environment and print the report; exit 1 when a check failed."""
    overrides = [*overrides, *own_overrides(args.environment, args.own_settings, overrides)]
    subject = find_subject(args.environment, overrides, notice)
    limits = ExaminationLimits(
        timeout_s=args.timeout_s, repeats=args.repeats, hostile_s=args.hostile_s
    )

    def give_up(report: VerifierReport) -> None:
        # The event loop is held by the verifier and may never come back.
        show_report(report, as_json=args.as_json)
        leave_now(RunFailed.exit_code)

    with masking(subject.config.secrets):
        report = asyncio.run(_examined(subject, limits, give_up, as_json=args.as_json))
    return show_report(report, as_json=args.as_json)


async def _examined(
    subject: ExaminedEnvironment,
    limits: ExaminationLimits,
    give_up: Callable[[VerifierReport], None],
    *,
    as_json: bool,
) -> VerifierReport:
    def print_report(report: VerifierReport) -> None:
        limit_s = limits.given_up_after_s + LOCKED_AFTER_S
        tell_guard(report=report.as_json(), as_json=as_json, limit_s=limit_s)

    reports: list[asyncio.Task[None]] = []

    def report_progress(now: Now) -> None:
        reports.append(asyncio.create_task(print_progress(now)))

    async with beating():
        try:
            return await check_environment(
                subject,
                limits,
                on_frozen=give_up,
                on_probe=print_report,
                on_begin=report_progress,
            )
        finally:
            for task in reports:
                task.cancel()


async def print_progress(now: Now, *, every_s: float = PROGRESS_EVERY_S) -> None:
    """Print what is being verified while it takes long. A screen also shows each check."""
    on_screen, check = is_a_screen(sys.stderr), ""
    printed = time.monotonic()
    while True:
        await asyncio.sleep(min(LOOK_EVERY_S, every_s))
        is_new = on_screen and now.check != check
        if not is_new and time.monotonic() - printed < every_s:
            continue
        check, printed = now.check, time.monotonic()
        notice(now.sentence())


def show_locked(work: JsonObject, problem: str) -> None:
    """Print the report that the ended command passed to its guard. `problem`: why the command was
    ended.
    """
    report = VerifierReport.from_json(work["report"])
    last = report.checks[-1]
    findings = tuple(replace(finding, problem=problem) for finding in last.findings)
    checks = (*report.checks[:-1], replace(last, findings=findings))
    show_report(replace(report, checks=checks), as_json=work["as_json"])


def show_report(report: VerifierReport, *, as_json: bool = False) -> int:
    """Print a report, and return its exit code."""
    if as_json:
        say_json(report.as_json())
    else:
        _show(report)
    if report.passed:
        return 0
    failed = [check.name for check in report.checks if check.findings]
    notice(f"error: {report.environment} does not pass: {', '.join(failed)}")
    if not report.complete:
        notice("hint: the verifier is too slow, so the checks after this one did not run")
    return RunFailed.exit_code


def _show(report: VerifierReport) -> None:
    print_table(
        ("check", "result", "probes", "findings", "note"),
        [
            (check.name, check.status, check.probes, len(check.findings) or "", check.note)
            for check in report.checks
        ],
        title=f"{report.environment}: the checks of its verifier",
        right="probes,findings",
    )
    if report.latency_ms:
        times = ", ".join(f"{name} {value:.3g}" for name, value in report.latency_ms.items())
        say(f"verify takes, in ms: {times}\n")
    for check in report.checks:
        if check.findings:
            lines = [_line(findings) for findings in grouped(check.findings)]
            print_table(("row", "kind", "problem", "answer"), lines, title=check.name)


def _line(findings: Sequence[VerifierFault]) -> tuple[str, str, str, str]:
    """Return a line of the table for findings with the same problem."""
    rows = dict.fromkeys("-" if f.row is None else str(f.row) for f in findings)
    kinds = dict.fromkeys(f.kind for f in findings)
    first = findings[0]
    return (_listed(rows), _listed(kinds), first.problem, first.answer)


def _listed(texts: Collection[str]) -> str:
    hidden_count = len(texts) - MOST_LISTED
    shown_texts = ", ".join(islice(texts, MOST_LISTED))
    return f"{shown_texts}, {hidden_count} more" if hidden_count > 0 else shown_texts

"""What `verify-env` prints while it examines."""

from palestra.cli.verifying import SILENT_S, CheckProgress
from palestra.conformance import CheckResult, VerifierFault, VerifierReport
from palestra.conformance.report import Status


def report_of(check: str, probes: int) -> VerifierReport:
    fault = VerifierFault(0, "boxes", "did not return", "text")
    return VerifierReport("env", (CheckResult(check, Status.FAILED, probes, findings=(fault,)),))


def test_a_check_that_takes_long_says_how_far_it_is() -> None:
    progress = CheckProgress(60.0)

    lines = [progress.line_at(report_of("hostile", n), 100.0 + n) for n in range(31)]

    assert [n for n, line in enumerate(lines) if line] == [SILENT_S, 10, 20]
    assert (
        lines[5]
        == "the check hostile has run for 5 s and verifies answer 5 (boxes); each may take 60 s (--timeout)"
    )


def test_the_time_of_a_check_begins_with_it() -> None:
    progress = CheckProgress(60.0)
    progress.line_at(report_of("wrong", 1), 0.0)

    assert not progress.line_at(report_of("hostile", 1), 60.0)
    assert not progress.line_at(report_of("hostile", 2), 64.0)

"""The results of the checks, with findings that the author of a verifier can act on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from palestra.schema import JsonDict, JsonObject

SHOWN = 160
"""The longest answer, in characters, that a finding quotes whole."""
LONGEST_PROBLEM = 400
"""The longest problem, in characters, that a finding states whole."""


class Status(StrEnum):
    """The result of a check: passed, failed or skipped."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """There was nothing to check; the note says why."""


@dataclass(frozen=True, slots=True)
class VerifierFault:
    """One finding: something that the verifier should not have done."""

    row: int | None
    """The number of the example row, from 0; None when the finding is about no single row."""
    kind: str
    """The kind of the answer: `truncated`, `hostile digits`, …"""
    problem: str
    answer: str = ""
    """The answer that caused the finding, shortened."""

    def as_json(self) -> JsonDict:
        """Return the finding as plain JSON values."""
        return {
            "row": self.row,
            "kind": self.kind,
            "problem": self.problem,
            "answer": self.answer.encode("utf-8", "backslashreplace").decode(),
        }


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. `probes`: the number of verifications it made."""

    name: str
    status: Status
    probes: int = 0
    note: str = ""
    findings: tuple[VerifierFault, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifierReport:
    """The results of all checks of one environment."""

    environment: str
    checks: tuple[CheckResult, ...]
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    """The percentiles of the time of ordinary verifications, in milliseconds: p50, p95, p99, max.
    """
    complete: bool = True
    """False when the verifier was so slow that the remaining checks were not made."""

    @property
    def passed(self) -> bool:
        """Whether the examination is complete and no check failed."""
        return self.complete and all(check.status is not Status.FAILED for check in self.checks)

    @classmethod
    def from_json(cls, values: JsonObject) -> Self:
        """Make a report from the values that `as_json` returns."""
        checks = tuple(
            CheckResult(
                check["check"],
                Status(check["status"]),
                check["probes"],
                check["note"],
                tuple(VerifierFault(**finding) for finding in check["findings"]),
            )
            for check in values["checks"]
        )
        return cls(values["environment"], checks, values["latency_ms"], values["complete"])

    def as_json(self) -> JsonDict:
        """Return the report as plain JSON values."""
        return {
            "environment": self.environment,
            "passed": self.passed,
            "complete": self.complete,
            "checks": [
                {
                    "check": check.name,
                    "status": check.status.value,
                    "probes": check.probes,
                    "note": check.note,
                    "findings": [finding.as_json() for finding in check.findings],
                }
                for check in self.checks
            ],
            "latency_ms": dict(self.latency_ms),
        }


def grouped(findings: Iterable[VerifierFault]) -> list[list[VerifierFault]]:
    """Return the findings in groups with the same problem and the same answer. Blank answers are the
    same.
    """
    groups: dict[tuple[str, str], list[VerifierFault]] = {}
    for finding in findings:
        groups.setdefault((finding.problem, finding.answer.strip()), []).append(finding)
    return list(groups.values())

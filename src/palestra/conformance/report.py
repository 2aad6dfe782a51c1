"""What came of the checks: a result for each, with the findings that a reader can act on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from palestra.schema import JsonDict, JsonObject

SHOWN = 160
"""Characters of an answer that a finding quotes."""


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """There was nothing to check; the note says why."""


@dataclass(frozen=True, slots=True)
class VerifierFault:
    """One thing that the verifier should not have done."""

    row: int | None
    """The row's place in the example rows, from 0; None when it concerns none in particular."""
    kind: str
    """What kind of answer it was: `truncated`, `hostile digits`, …"""
    problem: str
    answer: str = ""
    """The answer that did it, cut to what can be read."""

    def as_json(self) -> JsonDict:
        """Plain values."""
        return {
            "row": self.row,
            "kind": self.kind,
            "problem": self.problem,
            "answer": self.answer.encode("utf-8", "backslashreplace").decode(),
        }


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check. `probes`: how many verifications it made."""

    name: str
    status: Status
    probes: int = 0
    note: str = ""
    findings: tuple[VerifierFault, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifierReport:
    """All checks of one environment."""

    environment: str
    checks: tuple[CheckResult, ...]
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    """Percentiles of ordinary verifications: p50, p95, p99, max."""
    complete: bool = True
    """False when the verifier held the process so long that the rest was given up."""

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return self.complete and all(check.status is not Status.FAILED for check in self.checks)

    @classmethod
    def from_json(cls, values: JsonObject) -> Self:
        """What `as_json` made."""
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
        """Plain values, for programs."""
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


def shortened(text: str) -> str:
    """An answer as a finding quotes it: its beginning and its end."""
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]} … {text[-half // 2 :]} ({len(text)} characters)"

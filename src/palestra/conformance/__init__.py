"""Conformance: whether an environment's rewards can be trusted, found out by asking it.

`check_environment` gives the verifier right answers, wrong ones made of them, hostile texts, and a
judge that is made up, and reports what it should not have done.

- *row*: a task row. *gold*: an answer that is right. *probe*: one answer to one row, with what its
  reward must be. *finding*: a probe that went wrong, with the row and the text that did it.
"""

from palestra.conformance.cases import (
    CASES_FILE,
    Case,
    ExaminationLimits,
    has_numbered_rows,
    load_cases,
)
from palestra.conformance.check import ExaminedEnvironment, check_environment
from palestra.conformance.lag import LoopGuard
from palestra.conformance.playing import EnvironmentInterface, PlayedAnswer, Player, door_of
from palestra.conformance.report import CheckResult, VerifierFault, VerifierReport

__all__ = [
    "CASES_FILE",
    "Case",
    "CheckResult",
    "EnvironmentInterface",
    "ExaminationLimits",
    "ExaminedEnvironment",
    "LoopGuard",
    "PlayedAnswer",
    "Player",
    "VerifierFault",
    "VerifierReport",
    "check_environment",
    "door_of",
    "has_numbered_rows",
    "load_cases",
]

"""Conformance: test whether an environment's rewards can be trusted, by sending it answers.

`check_environment` sends the verifier right answers, wrong answers made from them and hostile
texts, with a scripted judge. It reports every wrong reaction of the verifier.

- *row*: a task row. *gold*: a right answer. *probe*: one answer to one row, with the reward that it
  must get. *finding*: a probe that went wrong, with its row and its text.
"""

from palestra.conformance.cases import (
    CASES_FILE,
    Case,
    ExaminationLimits,
    has_numbered_rows,
    load_cases,
)
from palestra.conformance.check import ExaminedEnvironment, check_environment
from palestra.conformance.examination import Now
from palestra.conformance.lag import LoopGuard
from palestra.conformance.playing import EnvironmentInterface, PlayedAnswer, Player, door_of
from palestra.conformance.report import CheckResult, VerifierFault, VerifierReport, grouped

__all__ = [
    "CASES_FILE",
    "Case",
    "CheckResult",
    "EnvironmentInterface",
    "ExaminationLimits",
    "ExaminedEnvironment",
    "LoopGuard",
    "Now",
    "PlayedAnswer",
    "Player",
    "VerifierFault",
    "VerifierReport",
    "check_environment",
    "door_of",
    "grouped",
    "has_numbered_rows",
    "load_cases",
]

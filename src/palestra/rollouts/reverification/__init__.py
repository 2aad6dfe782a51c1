"""Verifying stored responses again, with today's verifiers and without a model call.

stored.py      the rollouts that are read, line by line, and where each is verified
unverified.py  the answers in a failures file, whose verification failed
task_rows.py   the inputs that fill in what a rollout lacks
verify.py      many rows at once, written in the order of the input
files.py       the output, what is done of it so far, what it was made from, and the rows for which
               the command was ended, as their verification never returned
replaying.py   a session made again from the tool calls of its trajectory
changes.py     how the rewards differ from those before
"""

from palestra.rollouts.reverification.files import (
    Begun,
    Origin,
    ReverifyPaths,
    begin_reverification,
    check_places,
    record_stopped,
    stopped_rows,
)
from palestra.rollouts.reverification.stored import Checked, Routes, StoredRollouts
from palestra.rollouts.reverification.task_rows import FoundTaskRows, TaskRows
from palestra.rollouts.reverification.unverified import (
    UnverifiedAnswers,
    failures_beside,
    holds_failures,
    scored_beside,
)
from palestra.rollouts.reverification.verify import (
    Reverification,
    ReverifyLimits,
    Sessions,
    Verifier,
    check_modes,
)

__all__ = [
    "Begun",
    "Checked",
    "FoundTaskRows",
    "Origin",
    "Reverification",
    "ReverifyLimits",
    "ReverifyPaths",
    "Routes",
    "Sessions",
    "StoredRollouts",
    "TaskRows",
    "UnverifiedAnswers",
    "Verifier",
    "begin_reverification",
    "check_modes",
    "check_places",
    "failures_beside",
    "holds_failures",
    "record_stopped",
    "scored_beside",
    "stopped_rows",
]

"""What commands do, as functions that return values: for scripts, notebooks and the commands.

Nothing here prints, or ends the process: errors are those of `palestra.errors`, and who wants to
hear of work while it goes on hands in an `CommandObserver`.
"""

from palestra.api.environments import (
    EXAMPLE_ROLLOUTS,
    EvaluationTarget,
    find_subject,
    find_target,
)
from palestra.api.fleet_connection import (
    FROZEN_AFTER_S,
    CommandObserver,
    FleetChoice,
    OwnFleet,
    Reachable,
    Tell,
    Wait,
    find,
    unless,
    wait_for,
)
from palestra.api.reverification import PreparedReverification, prepared_reverification
from palestra.api.runs import RunProfile, ScoreTable, compare, profile, scores, select
from palestra.api.server_semantics import (
    code_digest,
    differs_from_running,
    run_semantics,
    server_semantics,
)
from palestra.rollouts import MergePlan, merge

__all__ = [
    "EXAMPLE_ROLLOUTS",
    "FROZEN_AFTER_S",
    "CommandObserver",
    "EvaluationTarget",
    "FleetChoice",
    "MergePlan",
    "OwnFleet",
    "PreparedReverification",
    "Reachable",
    "RunProfile",
    "ScoreTable",
    "Tell",
    "Wait",
    "code_digest",
    "compare",
    "differs_from_running",
    "find",
    "find_subject",
    "find_target",
    "merge",
    "prepared_reverification",
    "profile",
    "run_semantics",
    "scores",
    "select",
    "server_semantics",
    "unless",
    "wait_for",
]

"""The functions behind the commands, which return values: for scripts, notebooks and the commands.

The functions neither print nor end the process. They raise the errors of `palestra.errors`. To get
progress reports, pass a `CommandObserver`.
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

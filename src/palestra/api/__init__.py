"""The functions behind the commands, which return values: for scripts, notebooks and the commands.

The functions neither print nor end the process. They raise the errors of `palestra.errors`. To get
progress reports, pass a `CommandObserver`.
"""

from palestra.api.collection import (
    collect_with,
    how_to_continue,
    verified_by,
    with_config_of,
)
from palestra.api.component_details import (
    ComponentDetails,
    ExampleRow,
    ServerSetting,
    component_details,
)
from palestra.api.components import (
    KINDS,
    ComponentKindName,
    ComponentSummary,
    find_component_named,
    list_agents,
    list_components,
    list_environments,
    list_models,
)
from palestra.api.descriptors import check_descriptors, files_per_rollout, most_in_flight
from palestra.api.diagnosis import diagnose, secret_mask
from palestra.api.doors import doors_of_agents
from palestra.api.endpoint_waiting import (
    WAITING_LONGER,
    Tell,
    Wait,
    ask_endpoints,
    wait_for,
    warn_of_endpoints,
)
from palestra.api.environment_files import (
    files_behind,
    lines_of,
    own_overrides,
    read_rows,
    rows_of_instance,
    with_file_rows,
)
from palestra.api.environments import (
    EXAMPLE_ROLLOUTS,
    EvaluationTarget,
    find_subject,
    find_target,
)
from palestra.api.evaluation import Evaluation, prepare_evaluation
from palestra.api.fleet_connection import (
    FROZEN_AFTER_S,
    CommandObserver,
    FleetChoice,
    OwnFleet,
    Reachable,
    find,
    unless,
)
from palestra.api.models import (
    JUDGE,
    POLICY,
    ModelContext,
    ModelName,
    judge_config,
    model_config,
)
from palestra.api.python_calls import Model, acollect, aevaluate, collect, evaluate
from palestra.api.results import Reverified, Run, TaskSelection, merge, open_run
from palestra.api.reverification import PreparedReverification, prepared_reverification
from palestra.api.runs import (
    RunProfile,
    ScoreTable,
    compare,
    comparison_of_runs,
    list_runs,
    profile,
    scores,
    scores_of_runs,
    select,
)
from palestra.api.server_semantics import (
    differs_from_running,
    models_differ,
    run_semantics,
    server_semantics,
)
from palestra.api.unfinished_runs import unfinished_run
from palestra.records import (
    RUNS_FOLDER,
    FailedAttempt,
    FailureGroup,
    RolloutRecord,
    RunEntry,
    RunState,
    attempt_of,
    failure_groups,
    first_rollout,
    rollout_key,
    rollout_record,
    run_entry,
)
from palestra.rollouts import outputs_of

__all__ = [
    "EXAMPLE_ROLLOUTS",
    "FROZEN_AFTER_S",
    "JUDGE",
    "KINDS",
    "POLICY",
    "RUNS_FOLDER",
    "WAITING_LONGER",
    "CommandObserver",
    "ComponentDetails",
    "ComponentKindName",
    "ComponentSummary",
    "Evaluation",
    "EvaluationTarget",
    "ExampleRow",
    "FailedAttempt",
    "FailureGroup",
    "FleetChoice",
    "Model",
    "ModelContext",
    "ModelName",
    "OwnFleet",
    "PreparedReverification",
    "Reachable",
    "Reverified",
    "RolloutRecord",
    "Run",
    "RunEntry",
    "RunProfile",
    "RunState",
    "ScoreTable",
    "ServerSetting",
    "TaskSelection",
    "Tell",
    "Wait",
    "acollect",
    "aevaluate",
    "ask_endpoints",
    "attempt_of",
    "check_descriptors",
    "collect",
    "collect_with",
    "compare",
    "comparison_of_runs",
    "component_details",
    "diagnose",
    "differs_from_running",
    "doors_of_agents",
    "evaluate",
    "failure_groups",
    "files_behind",
    "files_per_rollout",
    "find",
    "find_component_named",
    "find_subject",
    "find_target",
    "first_rollout",
    "how_to_continue",
    "judge_config",
    "lines_of",
    "list_agents",
    "list_components",
    "list_environments",
    "list_models",
    "list_runs",
    "merge",
    "model_config",
    "models_differ",
    "most_in_flight",
    "open_run",
    "outputs_of",
    "own_overrides",
    "prepare_evaluation",
    "prepared_reverification",
    "profile",
    "read_rows",
    "rollout_key",
    "rollout_record",
    "rows_of_instance",
    "run_entry",
    "run_semantics",
    "scores",
    "scores_of_runs",
    "secret_mask",
    "select",
    "server_semantics",
    "unfinished_run",
    "unless",
    "verified_by",
    "wait_for",
    "warn_of_endpoints",
    "with_config_of",
    "with_file_rows",
]

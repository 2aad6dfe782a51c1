"""Collect rollouts: materialize rows, run them against agents, and record how each ended.

`prepare` decides which rows to run and which remain; `run` runs them. Every requested rollout ends
exactly once, as a scored row or as a typed failure.
"""

from palestra.datasets import PromptTemplate, load_prompt
from palestra.rollouts.afterwards import record_afterwards
from palestra.rollouts.aggregate import aggregate
from palestra.rollouts.announcing import (
    Announcement,
    announced,
    announcement_of,
    announcements,
    ask_collection,
    in_flight_lines,
    is_being_written,
    why_unscored,
)
from palestra.rollouts.collect import CollectionLimits, Collector, Observer, Progress
from palestra.rollouts.events import (
    EventFile,
    RolloutEvents,
    end_events,
    events_problem,
    open_for_events,
    refuse_events_in,
)
from palestra.rollouts.expansion import skills_ref, unknown_field, with_seed
from palestra.rollouts.file_kinds import kind_of, why_no_rollouts
from palestra.rollouts.imported import (
    ImportedRun,
    import_advice,
    import_command,
    import_rollouts,
    is_scored_rollout,
)
from palestra.rollouts.journal import Journal, JournalFailed, repair, write_json
from palestra.rollouts.lineage import SelectedFrom, provenance_path
from palestra.rollouts.manifest import (
    OPERATIONAL,
    Manifest,
    ShardOf,
    differences,
    lost_rows,
    read_manifest,
    semantics_of,
    servers_in,
    verifier_servers,
)
from palestra.rollouts.materialize import Materialized, materialize, whole_or_absent
from palestra.rollouts.merging.completeness import Completeness, MergeIncomplete
from palestra.rollouts.merging.merge import MergePlan, merge, plan_merge
from palestra.rollouts.merging.sources import OtherRun, RunSize
from palestra.rollouts.merging.write import MergeFailed
from palestra.rollouts.offered_tools import UnservedTool, unserved_tools
from palestra.rollouts.pace import Health, Pace
from palestra.rollouts.prepare import (
    PreparedRun,
    begin,
    discard,
    discard_new_inputs,
    intended,
    plan,
    prepare,
    unfinished_rollouts,
    why_not_writable,
)
from palestra.rollouts.recorded import has_unscored, scored_keys
from palestra.rollouts.results import (
    ENDED_RUN,
    FailedRow,
    Scored,
    checked,
    options_of_reverify,
    reverify_command,
)
from palestra.rollouts.reverification.files import (
    Begun,
    Origin,
    ReverifyPaths,
    begin_reverification,
    check_places,
    copy_inputs,
    is_reverified,
    manifest_of_verifiers,
    record_stopped,
    rows_to_verify,
    stopped_rows,
    unsafe,
    unused_reverified,
)
from palestra.rollouts.reverification.modes import Sessions, check_modes
from palestra.rollouts.reverification.stored import Checked, Routes, StoredRollouts
from palestra.rollouts.reverification.task_rows import FoundTaskRows, TaskRows
from palestra.rollouts.reverification.unverified import (
    UnverifiedAnswers,
    failures_beside,
    holds_failures,
    scored_beside,
)
from palestra.rollouts.reverification.verifier import Verifier
from palestra.rollouts.reverification.verify import Reverification, ReverifyLimits
from palestra.rollouts.row_checks import AgentRoute, check_rows, doors_behind
from palestra.rollouts.run import Collected, Drained, first_cause, run
from palestra.rollouts.run_folders import (
    MANIFEST_SUFFIX,
    RunManifests,
    argument_of,
    output_beside,
    outputs_of,
    read_if_valid,
    runs_in,
    runs_of,
)
from palestra.rollouts.same_run import setting_differences
from palestra.rollouts.stale import StaleRun, changes

__all__ = [
    "ENDED_RUN",
    "MANIFEST_SUFFIX",
    "OPERATIONAL",
    "AgentRoute",
    "Announcement",
    "Begun",
    "Checked",
    "Collected",
    "CollectionLimits",
    "Collector",
    "Completeness",
    "Drained",
    "EventFile",
    "FailedRow",
    "FoundTaskRows",
    "Health",
    "ImportedRun",
    "Journal",
    "JournalFailed",
    "Manifest",
    "Materialized",
    "MergeFailed",
    "MergeIncomplete",
    "MergePlan",
    "Observer",
    "Origin",
    "OtherRun",
    "Pace",
    "PreparedRun",
    "Progress",
    "PromptTemplate",
    "Reverification",
    "ReverifyLimits",
    "ReverifyPaths",
    "RolloutEvents",
    "Routes",
    "RunManifests",
    "RunSize",
    "Scored",
    "SelectedFrom",
    "Sessions",
    "ShardOf",
    "StaleRun",
    "StoredRollouts",
    "TaskRows",
    "UnservedTool",
    "UnverifiedAnswers",
    "Verifier",
    "aggregate",
    "announced",
    "announcement_of",
    "announcements",
    "argument_of",
    "ask_collection",
    "begin",
    "begin_reverification",
    "changes",
    "check_modes",
    "check_places",
    "check_rows",
    "checked",
    "copy_inputs",
    "differences",
    "discard",
    "discard_new_inputs",
    "doors_behind",
    "end_events",
    "events_problem",
    "failures_beside",
    "first_cause",
    "has_unscored",
    "holds_failures",
    "import_advice",
    "import_command",
    "import_rollouts",
    "in_flight_lines",
    "intended",
    "is_being_written",
    "is_reverified",
    "is_scored_rollout",
    "kind_of",
    "load_prompt",
    "lost_rows",
    "manifest_of_verifiers",
    "materialize",
    "merge",
    "open_for_events",
    "options_of_reverify",
    "output_beside",
    "outputs_of",
    "plan",
    "plan_merge",
    "prepare",
    "provenance_path",
    "read_if_valid",
    "read_manifest",
    "record_afterwards",
    "record_stopped",
    "refuse_events_in",
    "repair",
    "reverify_command",
    "rows_to_verify",
    "run",
    "runs_in",
    "runs_of",
    "scored_beside",
    "scored_keys",
    "semantics_of",
    "servers_in",
    "setting_differences",
    "skills_ref",
    "stopped_rows",
    "unfinished_rollouts",
    "unknown_field",
    "unsafe",
    "unserved_tools",
    "unused_reverified",
    "verifier_servers",
    "whole_or_absent",
    "why_no_rollouts",
    "why_not_writable",
    "why_unscored",
    "with_seed",
    "write_json",
]

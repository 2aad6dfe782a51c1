"""Reward statistics of a run: per task, per agent, and in all.

`load_run` joins a run's files into a `RunFrame` of numpy columns; the rest reads frames. The
metrics that environments report over repeated attempts (`compute_pass_majority_metrics`,
`aggregate_metrics`) work on plain verify responses. Everything but loading and writing is pure.
"""

from palestra.profiling.aggregate import aggregate_metrics, default_key_metrics
from palestra.profiling.compression import is_compressed
from palestra.profiling.frame import Completeness, Places, RunFrame, TaskIndex
from palestra.profiling.intervals import Estimate, estimate_difference, estimate_level
from palestra.profiling.load import load_run
from palestra.profiling.majority import majority_at_k
from palestra.profiling.manifests import MixedRuns
from palestra.profiling.pass_metrics import (
    compute_pass_majority_metrics,
    compute_subset_metrics,
    highest_k_metrics,
)
from palestra.profiling.passk import expected_max_at_k, pass_at_k, pass_hat_k
from palestra.profiling.paths import ProfilePaths
from palestra.profiling.sources import Files, rollout_files
from palestra.profiling.summary import (
    GroupSummary,
    RunSummary,
    Scores,
    agent_metrics,
    summarize,
    write_agent_metrics,
)
from palestra.profiling.task_rows import profile_tasks, write_reward_profiling
from palestra.profiling.views import OverRequested, PassAtK, Range, RangeAtK

__all__ = [
    "Completeness",
    "Estimate",
    "Files",
    "GroupSummary",
    "MixedRuns",
    "OverRequested",
    "PassAtK",
    "Places",
    "ProfilePaths",
    "Range",
    "RangeAtK",
    "RunFrame",
    "RunSummary",
    "Scores",
    "TaskIndex",
    "agent_metrics",
    "aggregate_metrics",
    "compute_pass_majority_metrics",
    "compute_subset_metrics",
    "default_key_metrics",
    "estimate_difference",
    "estimate_level",
    "expected_max_at_k",
    "highest_k_metrics",
    "is_compressed",
    "load_run",
    "majority_at_k",
    "pass_at_k",
    "pass_hat_k",
    "profile_tasks",
    "rollout_files",
    "summarize",
    "write_agent_metrics",
    "write_reward_profiling",
]

"""Reward statistics of a run: per task, per agent, and in all.

`load_run` joins a run's files into a `RunFrame` of numpy columns; the rest reads frames. The
metrics that environments report over repeated attempts (`compute_pass_majority_metrics`,
`aggregate_metrics`) work on plain verify responses. Everything but loading and writing is pure.
"""

from palestra.profiling.agent_rows import agent_metrics, write_agent_metrics
from palestra.profiling.aggregate import aggregate_metrics, default_key_metrics
from palestra.profiling.frame import Completeness, RunFrame
from palestra.profiling.intervals import Estimate, estimate_difference, estimate_level
from palestra.profiling.load import load_run
from palestra.profiling.majority import majority_at_k
from palestra.profiling.pass_metrics import (
    compute_pass_majority_metrics,
    compute_subset_metrics,
    highest_k_metrics,
)
from palestra.profiling.passk import expected_max_at_k, pass_at_k, pass_hat_k
from palestra.profiling.paths import ProfilePaths
from palestra.profiling.summary import (
    GroupSummary,
    PassAtK,
    RunSummary,
    Scores,
    summarize,
)
from palestra.profiling.task_rows import profile_tasks, write_reward_profiling

__all__ = [
    "Completeness",
    "Estimate",
    "GroupSummary",
    "PassAtK",
    "ProfilePaths",
    "RunFrame",
    "RunSummary",
    "Scores",
    "agent_metrics",
    "aggregate_metrics",
    "compute_pass_majority_metrics",
    "compute_subset_metrics",
    "default_key_metrics",
    "estimate_difference",
    "estimate_level",
    "expected_max_at_k",
    "highest_k_metrics",
    "load_run",
    "majority_at_k",
    "pass_at_k",
    "pass_hat_k",
    "profile_tasks",
    "summarize",
    "write_agent_metrics",
    "write_reward_profiling",
]

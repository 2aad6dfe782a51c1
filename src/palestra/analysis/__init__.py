"""Reward statistics of a run: per task, per agent, and in all; comparison, selection, report.

`load_run` joins a run's files into a `RunFrame` of numpy columns; the rest reads frames.
"""

from palestra.analysis.frame import Completeness, Places, RunFrame
from palestra.analysis.intervals import Estimate, estimate_difference, estimate_level
from palestra.analysis.load import load_run
from palestra.analysis.manifests import MixedRuns
from palestra.analysis.sources import Files, is_compressed, rollout_files
from palestra.analysis.summary import (
    GroupSummary,
    RunSummary,
    Scores,
    agent_metrics,
    summarize,
    write_agent_metrics,
)
from palestra.analysis.task_rows import profile_tasks, write_reward_profiling
from palestra.analysis.views import OverRequested, PassAtK, Range, RangeAtK

__all__ = [
    "Completeness",
    "Estimate",
    "Files",
    "GroupSummary",
    "MixedRuns",
    "OverRequested",
    "PassAtK",
    "Places",
    "Range",
    "RangeAtK",
    "RunFrame",
    "RunSummary",
    "Scores",
    "agent_metrics",
    "estimate_difference",
    "estimate_level",
    "is_compressed",
    "load_run",
    "profile_tasks",
    "rollout_files",
    "summarize",
    "write_agent_metrics",
    "write_reward_profiling",
]

"""Compute reward statistics of a run per task, per agent and overall; compare runs, select tasks,
write reports.

`load_run` joins the files of a run into a `RunFrame` of numpy columns; the other functions read
frames.
"""

from palestra.analysis.comparison.compare import comparison_of
from palestra.analysis.comparison.pairing import (
    ComparedRun,
    load_side,
    pair_tasks,
    refuse_shared_files,
)
from palestra.analysis.comparison.result import (
    Comparison,
    MetricComparison,
    Regression,
    RegressionGate,
    RunCounts,
    judge_comparison,
)
from palestra.analysis.frame import RowPositions, RunCompleteness, RunFrame
from palestra.analysis.intervals import Estimate, estimate_difference, estimate_level
from palestra.analysis.load import load_run
from palestra.analysis.manifests import MixedRuns
from palestra.analysis.report.markup import html_table
from palestra.analysis.report.transcript import Entry, output_entries, prompt_entries
from palestra.analysis.report.write import write_report
from palestra.analysis.run_head import RunHead, run_head
from palestra.analysis.seeds.answers import read_answers
from palestra.analysis.seeds.scores import (
    ModelScores,
    SeedRun,
    SeedScore,
    majorities_of,
    score_model,
)
from palestra.analysis.selection.export import (
    check_destination,
    export_selection,
    provenance_path,
    selection_origin,
)
from palestra.analysis.selection.select import (
    JudgedTask,
    RateBand,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    selection_of,
)
from palestra.analysis.sources import Files, rollout_files
from palestra.analysis.summary import (
    GroupScores,
    GroupSummary,
    RunSummary,
    agent_metrics,
    summarize,
    write_agent_metrics,
)
from palestra.analysis.task_rows import profile_tasks, write_reward_profiling
from palestra.analysis.views import OverRequested, PassAtK, Range, RangeAtK

__all__ = [
    "ComparedRun",
    "Comparison",
    "Entry",
    "Estimate",
    "Files",
    "GroupScores",
    "GroupSummary",
    "JudgedTask",
    "MetricComparison",
    "MixedRuns",
    "ModelScores",
    "OverRequested",
    "PassAtK",
    "Range",
    "RangeAtK",
    "RateBand",
    "Regression",
    "RegressionGate",
    "RowPositions",
    "RunCompleteness",
    "RunCounts",
    "RunFrame",
    "RunHead",
    "RunSummary",
    "SeedRun",
    "SeedScore",
    "Selection",
    "SelectionCriteria",
    "TaskVerdict",
    "agent_metrics",
    "check_destination",
    "comparison_of",
    "estimate_difference",
    "estimate_level",
    "export_selection",
    "html_table",
    "judge_comparison",
    "load_run",
    "load_side",
    "majorities_of",
    "output_entries",
    "pair_tasks",
    "profile_tasks",
    "prompt_entries",
    "provenance_path",
    "read_answers",
    "refuse_shared_files",
    "rollout_files",
    "run_head",
    "score_model",
    "selection_of",
    "selection_origin",
    "summarize",
    "write_agent_metrics",
    "write_report",
    "write_reward_profiling",
]

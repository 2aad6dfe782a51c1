"""Compute reward statistics of a run per task, per agent and overall; compare runs, select tasks,
write reports.

`load_run` joins the files of a run into a `RunFrame` of numpy columns; the other functions read
frames.
"""

from palestra.analysis.advice import advice_about, completion_for, environment_options
from palestra.analysis.comparison.compare import comparison_of
from palestra.analysis.comparison.pairing import (
    ComparedRun,
    load_side,
    pair_tasks,
    refuse_shared_files,
    side_of,
)
from palestra.analysis.comparison.result import (
    Comparison,
    MetricComparison,
    Regression,
    RegressionGate,
    RunCounts,
    judge_comparison,
)
from palestra.analysis.fingerprints import fingerprint
from palestra.analysis.frame import (
    AgentName,
    Endings,
    RequestLabels,
    RowPositions,
    RunCompleteness,
    RunFrame,
)
from palestra.analysis.intervals import Estimate, estimate_difference, estimate_level
from palestra.analysis.joined import JoinedRun, joined_frame
from palestra.analysis.load import family_of, load_run, no_group, without_garbage
from palestra.analysis.manifests import MissingShards, MixedRuns, shards_missing_beside
from palestra.analysis.queries.absent import absent_values
from palestra.analysis.queries.parsing import parse_query
from palestra.analysis.queries.tree import (
    BetweenTerm,
    ComparedTerm,
    Condition,
    ContainsTerm,
    HasTerm,
    Query,
    QueryError,
    WordTerm,
    decide_query,
    matches_query,
    number_text,
)
from palestra.analysis.report.facts import Bar, CurvePoint, LengthBin, Lengths, Spread
from palestra.analysis.report.markup import (
    Markup,
    amount,
    html_table,
    percent,
    tag,
    together,
    visible,
    visible_line,
)
from palestra.analysis.report.statements import (
    Component,
    Ending,
    KeyFigure,
    Remark,
    ReportValues,
    over_tasks,
    report_values,
)
from palestra.analysis.report.transcript import (
    Entries,
    Entry,
    output_entries,
    prompt_entries,
    question,
)
from palestra.analysis.report.write import write_report
from palestra.analysis.reverify_commands import (
    command_of_run,
    environment_arguments,
    environment_names,
)
from palestra.analysis.row_texts import read_texts, read_unscored_numbers
from palestra.analysis.run_head import RunHead, resources_servers, run_head
from palestra.analysis.scan import (
    UNREADABLE,
    RecordedObject,
    RowBlock,
    RowReader,
    decode_value,
    recorded_commands,
    split_row,
    why_no_row,
)
from palestra.analysis.seeds.answers import read_answers
from palestra.analysis.seeds.scores import (
    ModelScores,
    SeedRun,
    SeedScore,
    majorities_of,
    most_rollouts,
    score_model,
)
from palestra.analysis.selection.export import (
    check_destination,
    export_selection,
    selection_origin,
)
from palestra.analysis.selection.select import (
    NOTHING_FAILED,
    JudgedTask,
    RateBand,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    refuse_with_failed,
    selection_of,
)
from palestra.analysis.sources import Files, rollout_files
from palestra.analysis.summary import (
    GroupScores,
    GroupSummary,
    OutsideRules,
    RunSummary,
    agent_metrics,
    summarize,
    write_agent_metrics,
)
from palestra.analysis.tables import FailedAttempt, RowPlace
from palestra.analysis.task_rows import profile_tasks, write_reward_profiling
from palestra.analysis.views import (
    OverRequested,
    PassAtK,
    Range,
    RangeAtK,
    solved_by_group,
)

__all__ = [
    "NOTHING_FAILED",
    "UNREADABLE",
    "AgentName",
    "Bar",
    "BetweenTerm",
    "ComparedRun",
    "ComparedTerm",
    "Comparison",
    "Component",
    "Condition",
    "ContainsTerm",
    "CurvePoint",
    "Ending",
    "Endings",
    "Entries",
    "Entry",
    "Estimate",
    "FailedAttempt",
    "Files",
    "GroupScores",
    "GroupSummary",
    "HasTerm",
    "JoinedRun",
    "JudgedTask",
    "KeyFigure",
    "LengthBin",
    "Lengths",
    "Markup",
    "MetricComparison",
    "MissingShards",
    "MixedRuns",
    "ModelScores",
    "OutsideRules",
    "OverRequested",
    "PassAtK",
    "Query",
    "QueryError",
    "Range",
    "RangeAtK",
    "RateBand",
    "RecordedObject",
    "Regression",
    "RegressionGate",
    "Remark",
    "ReportValues",
    "RequestLabels",
    "RowBlock",
    "RowPlace",
    "RowPositions",
    "RowReader",
    "RunCompleteness",
    "RunCounts",
    "RunFrame",
    "RunHead",
    "RunSummary",
    "SeedRun",
    "SeedScore",
    "Selection",
    "SelectionCriteria",
    "Spread",
    "TaskVerdict",
    "WordTerm",
    "absent_values",
    "advice_about",
    "agent_metrics",
    "amount",
    "check_destination",
    "command_of_run",
    "comparison_of",
    "completion_for",
    "decide_query",
    "decode_value",
    "environment_arguments",
    "environment_names",
    "environment_options",
    "estimate_difference",
    "estimate_level",
    "export_selection",
    "family_of",
    "fingerprint",
    "html_table",
    "joined_frame",
    "judge_comparison",
    "load_run",
    "load_side",
    "majorities_of",
    "matches_query",
    "most_rollouts",
    "no_group",
    "number_text",
    "output_entries",
    "over_tasks",
    "pair_tasks",
    "parse_query",
    "percent",
    "profile_tasks",
    "prompt_entries",
    "question",
    "read_answers",
    "read_texts",
    "read_unscored_numbers",
    "recorded_commands",
    "refuse_shared_files",
    "refuse_with_failed",
    "report_values",
    "resources_servers",
    "rollout_files",
    "run_head",
    "score_model",
    "selection_of",
    "selection_origin",
    "shards_missing_beside",
    "side_of",
    "solved_by_group",
    "split_row",
    "summarize",
    "tag",
    "together",
    "visible",
    "visible_line",
    "why_no_row",
    "without_garbage",
    "write_agent_metrics",
    "write_report",
    "write_reward_profiling",
]

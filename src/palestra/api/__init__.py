"""What commands do, as functions that return values: for scripts, notebooks and the commands.

Nothing here prints, or ends the process: errors are those of `palestra.errors`.
"""

from palestra.api.runs import RunProfile, ScoreTable, compare, profile, scores, select
from palestra.rollouts import MergePlan, merge

__all__ = [
    "MergePlan",
    "RunProfile",
    "ScoreTable",
    "compare",
    "merge",
    "profile",
    "scores",
    "select",
]

"""What commands do, as functions that return values: for scripts, notebooks and the commands.

Nothing here prints, or ends the process: errors are those of `palestra.errors`.
"""

from palestra.api.runs import ScoreTable, compare, scores

__all__ = ["ScoreTable", "compare", "scores"]

"""The endpoints of the viewer's server: paths, query parameters, and the type of each reply.

All answer `GET` and `HEAD` only, and need `Authorization: Bearer TOKEN`. `{run}`, `{a}`, `{b}` and
`{cluster}` are ids from `/api/runs` and `/api/session`; no request holds a path. `{task}` and
`{rollout}` are the indices of the rows; `-` stands for each of a line without indices, and `row`
then names the line. `row` also chooses among lines with the same key.

Parameters that are not listed are refused with 400.
"""

from dataclasses import dataclass
from typing import Final

from palestra.viewer.replies.about import About
from palestra.viewer.replies.base import Reply
from palestra.viewer.replies.clusters import ClusterPage
from palestra.viewer.replies.comparison import ComparePage, CompareTasks
from palestra.viewer.replies.differences import Diff
from palestra.viewer.replies.evidence import RewardPanel
from palestra.viewer.replies.failures import FailureTree
from palestra.viewer.replies.figures import RunFigures
from palestra.viewer.replies.rollout import ItemText, OutlinePage, RolloutPage, TranscriptHits
from palestra.viewer.replies.runs import Live, RunList, RunPage, ViewerSession
from palestra.viewer.replies.selection import SelectPage
from palestra.viewer.replies.stored import RawRange, RolloutAttempts, RolloutCommands, Times, Tree
from palestra.viewer.replies.tables import (
    Facets,
    Histograms,
    RolloutTable,
    SearchProgress,
    TableColumns,
    TaskTable,
)
from palestra.viewer.replies.tasks import TaskGroup
from palestra.viewer.replies.tokens import TokenRange, TokenTurns


@dataclass(frozen=True, slots=True)
class ViewerEndpoint:
    """One endpoint. `streams`: the reply is one JSON object per line, over time.

    `reply` None: the body is bytes, with a media type of its own.
    """

    name: str
    """The name of the page's function that asks for it."""
    path: str
    reply: type[Reply] | None
    parameters: tuple[str, ...] = ()
    streams: bool = False


_ROLLOUT: Final = "/api/r/{run}/t/{task}/{rollout}"
_PAIRING: Final = ("unmatched", "different_rows")
_PAGE: Final = ("q", "sort", "offset", "limit")
"""`q`: a query; `sort`: a field, with `-` for descending; `limit`: at most 500."""

ENDPOINTS: Final[tuple[ViewerEndpoint, ...]] = (
    ViewerEndpoint("session", "/api/session", ViewerSession),
    ViewerEndpoint("runs", "/api/runs", RunList),
    ViewerEndpoint("liveRuns", "/api/live", RunList, streams=True),
    ViewerEndpoint("run", "/api/r/{run}", RunPage),
    ViewerEndpoint("figures", "/api/r/{run}/figures", RunFigures),
    ViewerEndpoint("live", "/api/r/{run}/live", Live, streams=True),
    ViewerEndpoint("columns", "/api/r/{run}/columns", TableColumns),
    # `columns`: names with commas, else those that are `shown`.
    ViewerEndpoint("rollouts", "/api/r/{run}/rollouts", RolloutTable, (*_PAGE, "columns")),
    ViewerEndpoint("tasks", "/api/r/{run}/tasks", TaskTable, (*_PAGE, "columns")),
    # `of`: `rollouts` (the default) or `tasks`; `fields`: names with commas, else the usual ones.
    ViewerEndpoint("facets", "/api/r/{run}/facets", Facets, ("q", "of")),
    ViewerEndpoint("histograms", "/api/r/{run}/histograms", Histograms, ("q", "of", "fields")),
    ViewerEndpoint("search", "/api/r/{run}/search", SearchProgress, ("q",), streams=True),
    ViewerEndpoint("task", "/api/r/{run}/t/{task}", TaskGroup),
    # One rollout. `q` and `sort`: of the table that it was opened from, for its neighbours.
    ViewerEndpoint("rollout", _ROLLOUT, RolloutPage, ("row", "q", "sort")),
    ViewerEndpoint("outline", f"{_ROLLOUT}/outline", OutlinePage, ("row", "start")),
    ViewerEndpoint("item", f"{_ROLLOUT}/item", ItemText, ("row", "at", "start")),
    ViewerEndpoint("image", f"{_ROLLOUT}/image", None, ("row", "at", "part")),
    ViewerEndpoint("findInTranscript", f"{_ROLLOUT}/find", TranscriptHits, ("row", "text")),
    ViewerEndpoint("reward", f"{_ROLLOUT}/reward", RewardPanel, ("row",)),
    ViewerEndpoint("attempts", f"{_ROLLOUT}/attempts", RolloutAttempts),
    ViewerEndpoint("times", f"{_ROLLOUT}/times", Times),
    ViewerEndpoint("tokens", f"{_ROLLOUT}/tokens", TokenTurns, ("row",)),
    ViewerEndpoint("tokenRange", f"{_ROLLOUT}/tokens/{{turn}}", TokenRange, ("row", "start")),
    ViewerEndpoint("raw", f"{_ROLLOUT}/raw", RawRange, ("row", "start")),
    ViewerEndpoint("download", f"{_ROLLOUT}/download", None, ("row",)),
    ViewerEndpoint("tree", f"{_ROLLOUT}/tree", Tree, ("row", "path", "start")),
    ViewerEndpoint("commands", f"{_ROLLOUT}/commands", RolloutCommands, ("row",)),
    # `a`, `b`: RUN/TASK/ROLLOUT, or RUN/-/-/ROW.
    ViewerEndpoint("diff", "/api/diff", Diff, ("a", "b", "start")),
    ViewerEndpoint("failures", "/api/r/{run}/failures", FailureTree),
    ViewerEndpoint("compare", "/api/c/{a}/{b}", ComparePage, _PAIRING),
    ViewerEndpoint("comparedTasks", "/api/c/{a}/{b}/tasks", CompareTasks, (*_PAGE, *_PAIRING)),
    # `low`, `high`: the band; the others are the options of `palestra select`.
    ViewerEndpoint(
        "select",
        "/api/r/{run}/select",
        SelectPage,
        (
            *("low", "high", "min_rollouts", "max_tokens", "solved_at", "learnability"),
            *("decided_only", "limit", "offset"),
        ),
    ),
    ViewerEndpoint("cluster", "/api/k/{cluster}", ClusterPage),
    ViewerEndpoint("about", "/api/r/{run}/about", About),
)

"""The endpoints of the viewer's server: paths, query parameters, and the type of each reply.

All answer `GET` and `HEAD` only, and need `Authorization: Bearer TOKEN`. `{run}`, `{a}`, `{b}` and
`{cluster}` are ids from `/api/runs` and `/api/session`; no request holds a path. `{task}` and
`{rollout}` are the indices of the rows; `-` stands for each of a line without indices, and `row`
then names the line. `row` also chooses among lines with the same key.

Parameters that are not listed are refused with 400.
"""

from dataclasses import dataclass
from typing import Final

from palestra.viewer import replies


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint. `streams`: the reply is one JSON object per line, over time.

    `reply` None: the body is bytes, with a media type of its own.
    """

    name: str
    """The name of the page's function that asks for it."""
    path: str
    reply: type[replies.Reply] | None
    parameters: tuple[str, ...] = ()
    streams: bool = False


_ROLLOUT: Final = "/api/r/{run}/t/{task}/{rollout}"
_PAGE: Final = ("q", "sort", "offset", "limit")
"""`q`: a query; `sort`: a field, with `-` for descending; `limit`: at most 500."""

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("session", "/api/session", replies.Session),
    Endpoint("runs", "/api/runs", replies.RunList),
    Endpoint("liveRuns", "/api/live", replies.RunList, streams=True),
    Endpoint("run", "/api/r/{run}", replies.RunPage),
    Endpoint("figures", "/api/r/{run}/figures", replies.RunFigures),
    Endpoint("live", "/api/r/{run}/live", replies.Live, streams=True),
    Endpoint("columns", "/api/r/{run}/columns", replies.Columns),
    # `columns`: names with commas, else those that are `shown`.
    Endpoint("rollouts", "/api/r/{run}/rollouts", replies.RolloutTable, (*_PAGE, "columns")),
    Endpoint("tasks", "/api/r/{run}/tasks", replies.TaskTable, (*_PAGE, "columns")),
    # `of`: `rollouts` (the default) or `tasks`; `fields`: names with commas, else the usual ones.
    Endpoint("facets", "/api/r/{run}/facets", replies.Facets, ("q", "of")),
    Endpoint("histograms", "/api/r/{run}/histograms", replies.Histograms, ("q", "of", "fields")),
    Endpoint("search", "/api/r/{run}/search", replies.SearchProgress, ("q",), streams=True),
    Endpoint("task", "/api/r/{run}/t/{task}", replies.TaskGroup),
    # One rollout. `q` and `sort`: of the table that it was opened from, for its neighbours.
    Endpoint("rollout", _ROLLOUT, replies.RolloutPage, ("row", "q", "sort")),
    Endpoint("outline", f"{_ROLLOUT}/outline", replies.Outline, ("row", "start")),
    Endpoint("item", f"{_ROLLOUT}/item", replies.ItemText, ("row", "at", "start")),
    Endpoint("image", f"{_ROLLOUT}/image", None, ("row", "at", "part")),
    Endpoint("findInTranscript", f"{_ROLLOUT}/find", replies.TranscriptHits, ("row", "text")),
    Endpoint("reward", f"{_ROLLOUT}/reward", replies.RewardPanel, ("row",)),
    Endpoint("attempts", f"{_ROLLOUT}/attempts", replies.Attempts),
    Endpoint("times", f"{_ROLLOUT}/times", replies.Times),
    Endpoint("tokens", f"{_ROLLOUT}/tokens", replies.TokenTurns, ("row",)),
    Endpoint("tokenRange", f"{_ROLLOUT}/tokens/{{turn}}", replies.TokenRange, ("row", "start")),
    Endpoint("raw", f"{_ROLLOUT}/raw", replies.RawRange, ("row", "start")),
    Endpoint("download", f"{_ROLLOUT}/download", None, ("row",)),
    Endpoint("tree", f"{_ROLLOUT}/tree", replies.Tree, ("row", "path", "start")),
    Endpoint("commands", f"{_ROLLOUT}/commands", replies.Commands, ("row",)),
    # `a`, `b`: RUN/TASK/ROLLOUT, or RUN/-/-/ROW.
    Endpoint("diff", "/api/diff", replies.Diff, ("a", "b", "start")),
    Endpoint("failures", "/api/r/{run}/failures", replies.FailureTree),
    Endpoint("compare", "/api/c/{a}/{b}", replies.ComparePage, ("unmatched", "different_rows")),
    Endpoint("comparedTasks", "/api/c/{a}/{b}/tasks", replies.CompareTasks, _PAGE),
    # `low`, `high`: the band; the others are the options of `palestra select`.
    Endpoint(
        "select",
        "/api/r/{run}/select",
        replies.SelectPage,
        (
            *("low", "high", "min_rollouts", "max_tokens", "solved_at", "learnability"),
            *("decided_only", "limit", "offset"),
        ),
    ),
    Endpoint("cluster", "/api/k/{cluster}", replies.ClusterPage),
    Endpoint("about", "/api/r/{run}/about", replies.About),
)

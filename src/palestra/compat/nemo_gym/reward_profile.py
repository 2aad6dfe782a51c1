"""`nemo_gym.reward_profile`: metrics of repeated attempts, computed with Palestra's functions."""

import re
from collections.abc import Callable, ItemsView, KeysView, Sequence, ValuesView
from typing import Any

from palestra.compat.metrics import aggregated
from palestra.compat.nemo_gym.config_types import AggregateMetrics
from palestra.metrics import AVERAGE, pass_metrics
from palestra.schema import JsonDict, JsonObject, finite_reward

ScoreFunction = Callable[[JsonDict], JsonObject]

REWARD = "reward"
_ANSWER = "__answer__"


class PassMetrics(tuple[JsonDict, Any, Any, int]):
    """A tuple (metrics, scores of every rollout, names of the scores, largest k).

    Authors unpack the tuple or use it as the dict of metrics: `result["name"]` works too.
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return self.metrics[key] if isinstance(key, str) else super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        return key in self.metrics

    @property
    def metrics(self) -> JsonDict:
        """The metrics by name."""
        metrics, *_ = self
        return metrics

    def keys(self) -> KeysView[str]:
        """Return the names of the metrics."""
        return self.metrics.keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of the metrics."""
        return self.metrics.values()

    def items(self) -> ItemsView[str, Any]:
        """Return (name, value) pairs of the metrics."""
        return self.metrics.items()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the metric `name`, or `default` when it does not exist."""
        return self.metrics.get(name, default)


def compute_pass_majority_metrics(
    tasks: Sequence[Sequence[JsonObject]],
    score_fn: ScoreFunction | None = None,
    answer_key: str | None = None,
    **how: Any,
) -> PassMetrics:
    """Return pass@k, pass@1[avg-of-k] and, with an `answer_key`, majority@k, in percent, for every
    k.

    `score_fn` returns the scores of a rollout by name (default: its reward). A score that a rollout
    lacks counts as 0.
    """
    score_names = how.get("score_names")
    scores = [[_scores(row, score_fn, score_names) for row in task] for task in tasks]
    names = list(dict.fromkeys(name for task in scores for row in task for name in row))
    rows = [
        [
            {**dict.fromkeys(names, 0.0), **row_scores, **_answer(row, answer_key)}
            for row, row_scores in zip(task, task_scores, strict=True)
        ]
        for task, task_scores in zip(tasks, scores, strict=True)
    ]
    metrics = pass_metrics.compute_pass_majority_metrics(
        rows, score_names=names, answer_key=_ANSWER
    )
    most_rollouts = max((len(task) for task in tasks), default=0)
    return PassMetrics((metrics, scores, names, most_rollouts))


def compute_subset_metrics(
    tasks: Sequence[Sequence[JsonObject]],
    subset_key: str,
    score_fn: ScoreFunction | None = None,
    answer_key: str | None = None,
    **how: Any,
) -> JsonDict:
    """Return the pass and majority metrics for each value of the field `subset_key`.

    Their names begin with `{value}/`. A task's value is the one in its first row.
    """
    subsets: dict[str, list[Sequence[JsonObject]]] = {}
    for task in tasks:
        if task and task[0].get(subset_key) is not None:
            subsets.setdefault(str(task[0][subset_key]), []).append(task)
    return {
        f"{subset}/{name}": value
        for subset in sorted(subsets)
        for name, value in compute_pass_majority_metrics(
            subsets[subset], score_fn, answer_key, **how
        ).items()
    }


def highest_k_metrics(
    agent_metrics: JsonObject,
    pattern: str = AVERAGE,
    score_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
    **_how: Any,
) -> JsonDict:
    """Return the metrics `pattern/{name}` at the largest k that exists; `{k}` in `pattern` matches
    k.
    """
    matcher = re.compile(re.escape(pattern).replace(r"\{k\}", r"(\d+)") + r"/([^/]+)")
    matches = [match for match in map(matcher.fullmatch, agent_metrics.keys()) if match]
    largest = max((int(match[1]) for match in matches), default=0)
    return {
        match[0]: agent_metrics[match[0]]
        for match in matches
        if int(match[1]) == largest
        and (score_names is None or match[2] in score_names)
        and match[2] not in (exclude_names or ())
    }


def compute_aggregate_metrics(
    verify_responses: Sequence[JsonDict],
    compute_metrics_fn: Callable[[Any], Any] | None = None,
    get_key_metrics_fn: Callable[[Any], Any] | None = None,
) -> AggregateMetrics:
    """Return the response of `/aggregate_metrics`, computed with the two hooks."""
    return aggregated(verify_responses, compute_metrics_fn or _none, get_key_metrics_fn or _means)


def _none(_tasks: Any) -> JsonDict:
    return {}


def _means(metrics: JsonObject) -> JsonDict:
    return {name: value for name, value in metrics.items() if name.startswith("mean/")}


def _scores(row: JsonObject, score_fn: ScoreFunction | None, names: Any) -> dict[str, float]:
    if score_fn is None:
        named_values: JsonObject = {name: row.get(name) for name in names or (REWARD,)}
    else:
        named_values = score_fn(dict(row))
    finite = {name: finite_reward(value) for name, value in named_values.items()}
    return {name: value for name, value in finite.items() if value is not None}


def _answer(row: JsonObject, key: str | None) -> JsonDict:
    return {} if key is None else {_ANSWER: row.get(key)}

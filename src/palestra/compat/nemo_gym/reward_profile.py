"""`nemo_gym.reward_profile`: metrics of repeated attempts, as the field defines them.

They differ from those of `palestra.metrics`: pass@k of graded scores is the maximum of the *first*
k, and tasks with fewer than k rollouts count in avg-of-k and majority@k.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, ItemsView, KeysView, Sequence, ValuesView
from typing import Any

from palestra.compat.metrics import aggregated
from palestra.compat.nemo_gym.config_types import AggregateMetrics
from palestra.metrics import AVERAGE, pass_at_k
from palestra.schema import JsonDict, JsonObject

ScoreFunction = Callable[[JsonDict], JsonObject]

ScoreDicts = list[list[JsonDict]]
"""The scores of every rollout by name: for each task, its rollouts in order."""

NO_ANSWER = "no_answer"
_PER_SAMPLE = "per_sample_aggregate"


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
) -> PassMetrics:
    """Return pass@k, pass@1[avg-of-k] and, with an `answer_key`, majority@k, in percent, for every
    k up to the largest number of rollouts of a task.

    `score_fn` returns the scores of a rollout by name; by default, `accuracy` is its reward. A
    rollout without a score, or with None, is left out of that score. With an `answer_key`,
    `no_answer` is an additional score: 1 for a rollout whose answer is None.

    - `pass@{k}/{name}`: for 0/1 scores the unbiased pass@k, for other scores the maximum of the
      first k; over the tasks with at least k scores.
    - `pass@1[avg-of-{k}]/{name}`: the mean over all tasks of the mean of their first k scores.
      `/std_dev_across_runs` and `/std_err_across_runs` are over the means of the first k runs (run
      i is the i-th rollout of every task that has it).
    - `majority@{k}/{name}`: the mean over all tasks of the score of the most frequent pair (answer,
      score) among their first k rollouts. Pairs that tie share the win; a task without answers
      counts 0.
    - `per_sample_aggregate`: for each score, the mean of every run.

    Raises KeyError: a rollout has no `reward`, and there is no `score_fn`.
    """
    score_dicts = [[_score_dict(row, score_fn, answer_key) for row in task] for task in tasks]
    names = list(dict.fromkeys(name for task in score_dicts for row in task for name in row))
    max_k = max(map(len, tasks), default=0)
    metrics: JsonDict = {}
    run_means: dict[str, list[float]] = {}
    for name in names:
        task_scores = _scores_of(score_dicts, name)
        run_means[name] = _run_means(score_dicts, name, max_k)
        is_binary = all(score in (0, 1) for scores in task_scores for score in scores)
        for k in range(1, max_k + 1):
            metrics.update(_pass_at(k, name, task_scores, is_binary=is_binary))
            metrics.update(_average_of(k, name, task_scores, run_means[name]))
            if answer_key is not None:
                votes = [
                    _majority(task[:k], scored[:k], answer_key, name)
                    for task, scored in zip(tasks, score_dicts, strict=True)
                    if task
                ]
                metrics[f"majority@{k}/{name}"] = 100 * statistics.fmean(votes)
    if max_k:
        metrics[_PER_SAMPLE] = run_means
    return PassMetrics((metrics, score_dicts, names, max_k))


def add_avg_sample_std_dev(
    metrics: JsonDict, all_score_dicts: ScoreDicts, score_names: Sequence[str], max_k: int
) -> None:
    """Add `pass@1[avg-of-{k}]/{name}/avg_sample_std_dev` to `metrics` for k = 2 to `max_k`.

    It is the mean over tasks of the sample standard deviation of their first k scores, in the
    score's own unit. Tasks with fewer than 2 of them are left out.
    """
    for name in score_names:
        task_scores = _scores_of(all_score_dicts, name)
        for k in range(2, max_k + 1):
            deviations = [
                statistics.stdev(scores[:k]) for scores in task_scores if len(scores[:k]) > 1
            ]
            if deviations:
                key = f"{AVERAGE.format(k=k)}/{name}/avg_sample_std_dev"
                metrics[key] = statistics.fmean(deviations)


def compute_subset_metrics(
    tasks: Sequence[Sequence[JsonObject]],
    subset_key: str,
    score_fn: ScoreFunction | None = None,
    answer_key: str | None = None,
) -> JsonDict:
    """Return the pass and majority metrics for each value of the field `subset_key`.

    Their names begin with `{value}/`. A task's value is the one in its first row; tasks with an
    empty value are left out.
    """
    subsets: dict[Any, list[Sequence[JsonObject]]] = {}
    for task in tasks:
        if task and (subset := task[0].get(subset_key)):
            subsets.setdefault(subset, []).append(task)
    return {
        f"{subset}/{name}": value
        for subset, its_tasks in subsets.items()
        for name, value in compute_pass_majority_metrics(its_tasks, score_fn, answer_key).items()
        if name != _PER_SAMPLE
    }


def highest_k_metrics(
    agent_metrics: JsonObject,
    pattern: str,
    score_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
) -> JsonDict:
    """Return the metrics `pattern/{name}` of the wanted scores at their largest k; `{k}` in
    `pattern` stands for k.

    `score_names`: the wanted scores; by default, all but `exclude_names`.
    """
    before, has_k, after = pattern.partition("{k}")
    number = r"(?P<k>\d+)" if has_k else "(?P<k>)"
    matcher = re.compile(re.escape(before) + number + re.escape(after) + r"/(?P<name>[^/]+)")
    matches = [
        match
        for match in map(matcher.fullmatch, agent_metrics)
        if match is not None
        and (score_names is None or match["name"] in score_names)
        and match["name"] not in (exclude_names or ())
    ]
    largest = max((int(match["k"] or 0) for match in matches), default=0)
    return {
        match[0]: agent_metrics[match[0]] for match in matches if int(match["k"] or 0) == largest
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


def _score_dict(
    row: JsonObject, score_fn: ScoreFunction | None, answer_key: str | None
) -> JsonDict:
    scores = {"accuracy": row["reward"]} if score_fn is None else dict(score_fn(dict(row)))
    if answer_key is not None:
        scores[NO_ANSWER] = float(row.get(answer_key) is None)
    return scores


def _scores_of(score_dicts: ScoreDicts, name: str) -> list[list[float]]:
    """Return for each task the scores called `name`, without the rollouts that lack it."""
    return [[float(row[name]) for row in task if row.get(name) is not None] for task in score_dicts]


def _run_means(score_dicts: ScoreDicts, name: str, max_k: int) -> list[float]:
    """Return the mean of every run in percent, without the runs in which no rollout has the score."""
    runs = (
        [
            float(task[run][name])
            for task in score_dicts
            if run < len(task) and task[run].get(name) is not None
        ]
        for run in range(max_k)
    )
    return [100 * statistics.fmean(run) for run in runs if run]


def _pass_at(
    k: int, name: str, task_scores: Sequence[Sequence[float]], *, is_binary: bool
) -> JsonDict:
    values = [
        pass_at_k(len(scores), int(sum(scores)), k) if is_binary else max(scores[:k])
        for scores in task_scores
        if len(scores) >= k
    ]
    return {f"pass@{k}/{name}": 100 * statistics.fmean(values)} if values else {}


def _average_of(
    k: int, name: str, task_scores: Sequence[Sequence[float]], run_means: Sequence[float]
) -> JsonDict:
    means = [statistics.fmean(scores[:k]) for scores in task_scores if scores]
    if not means:
        return {}
    average = f"{AVERAGE.format(k=k)}/{name}"
    metrics: JsonDict = {average: 100 * statistics.fmean(means)}
    if len(first_runs := run_means[:k]) > 1:
        deviation = statistics.stdev(first_runs)
        metrics[f"{average}/std_dev_across_runs"] = deviation
        metrics[f"{average}/std_err_across_runs"] = deviation / math.sqrt(len(first_runs))
    return metrics


def _majority(
    rows: Sequence[JsonObject], score_dicts: Sequence[JsonDict], answer_key: str, name: str
) -> float:
    """Return the score of the most frequent pair (answer, score); 0 without answers."""
    votes = Counter(
        (_vote(row[answer_key]), float(scores[name]))
        for row, scores in zip(rows, score_dicts, strict=True)
        if row.get(answer_key) is not None and scores.get(name) is not None
    )
    most_votes = max(votes.values(), default=0)
    winners = [score for (_, score), count in votes.items() if count == most_votes]
    return statistics.fmean(winners) if winners else 0.0


def _vote(answer: Any) -> Hashable:
    return answer if isinstance(answer, Hashable) else repr(answer)

"""Computes the metrics of repeated attempts that environments report: in percent, under NeMo Gym's
keys.

A metric of k attempts is computed over the tasks with at least k rollouts. When answers are
extracted, `no_answer` is an additional score: 1 for a rollout without an answer.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from palestra.errors import RejectedRows
from palestra.metrics.columns import REWARD, FloatArray, as_number
from palestra.metrics.passk import expected_max_of_sorted, majorities
from palestra.schema import EXTRACTED_ANSWER, JsonDict, JsonObject

Task = Sequence[JsonObject]
"""The rollouts of one task, in order of rollout index."""

NO_ANSWER = "no_answer"
AVERAGE = "pass@1[avg-of-{k}]"


@dataclass(frozen=True, slots=True)
class _Scored:
    """One score of all rollouts, and the scores of majority votes for every k.

    `matrices`: one matrix for all tasks with the same number of rollouts, with one row per task, in
    order of rollout index. `majorities`: per task, the score of the vote of its first k rollouts,
    for k = 1, 2, …; None when no answers are extracted.
    """

    name: str
    matrices: Sequence[FloatArray]
    majorities: Sequence[Sequence[float]] | None

    @property
    def most(self) -> int:
        """The largest number of rollouts of a task."""
        return max((rows.shape[1] for rows in self.matrices), default=0)

    def first(self, k: int) -> FloatArray:
        """Return the first k scores of every task with at least k."""
        return np.concatenate([rows[:, :k] for rows in self.matrices if rows.shape[1] >= k])


def compute_pass_majority_metrics(
    tasks: Sequence[Task],
    *,
    score_names: Sequence[str] = (REWARD,),
    answer_key: str = EXTRACTED_ANSWER,
) -> JsonDict:
    """Return pass@k, pass^k, pass@1[avg-of-k] and, when answers are extracted, majority@k, for
    every k.

    `pass@{k}/{name}`: the expected best score among k of a task's rollouts; for 0/1 scores this is
    the unbiased pass@k. For other scores, NeMo Gym takes the maximum of the *first* k; the expected
    maximum has the same mean and does not depend on order.

    `pass^{k}/{name}`: the expected worst score among k; for 0/1 scores the probability that all k
    succeed.

    `pass@1[avg-of-{k}]/{name}`: the mean score of the first k rollouts. `/std_dev_across_runs` and
    `/std_err_across_runs` are over the k runs (run i is the i-th rollout of every task);
    `/avg_sample_std_dev` is the mean over tasks of the standard deviation within a task.

    `majority@{k}/{name}`: the score of the majority answer of the first k; see `majority_at_k`.

    `per_sample_aggregate`: for each score, the mean of every run.
    """
    tasks = [task for task in tasks if task]
    metrics: JsonDict = {}
    runs: dict[str, list[float]] = {}
    for scored in _scores(tasks, score_names, answer_key):
        turned = [-rows for rows in scored.matrices]
        best = [np.sort(rows, axis=1) for rows in scored.matrices]
        worst = [np.sort(rows, axis=1) for rows in turned]
        for k in range(1, scored.most + 1):
            metrics[f"pass@{k}/{scored.name}"] = 100 * _best_of(best, k)
            metrics[f"pass^{k}/{scored.name}"] = 0.0 - 100 * _best_of(worst, k)
            metrics.update(_of_first(scored, k))
        runs[scored.name] = [
            100 * float(scored.first(k)[:, -1].mean()) for k in range(1, scored.most + 1)
        ]
    if tasks:
        metrics["per_sample_aggregate"] = runs
    return metrics


def compute_subset_metrics(
    tasks: Sequence[Task],
    subset_key: str,
    *,
    score_names: Sequence[str] = (REWARD,),
    answer_key: str = EXTRACTED_ANSWER,
) -> JsonDict:
    """Return the metrics of `compute_pass_majority_metrics` for each value of a field, under
    `{value}/…`.

    The first row of a task decides its subset. Tasks without the field are in no subset.
    """
    subsets: dict[str, list[Task]] = {}
    for task in tasks:
        if task and task[0].get(subset_key) is not None:
            subsets.setdefault(str(task[0][subset_key]), []).append(task)
    return {
        f"{subset}/{name}": value
        for subset in sorted(subsets)
        for name, value in compute_pass_majority_metrics(
            subsets[subset], score_names=score_names, answer_key=answer_key
        ).items()
    }


def highest_k_metrics(
    metrics: JsonObject,
    pattern: str = AVERAGE,
    *,
    score_names: Sequence[str] | None = None,
) -> JsonDict:
    """Return the metrics `pattern/{name}` with the largest k; `{k}` in `pattern` stands for k.

    Without `score_names`, all scores are returned. Metrics with a second slash (standard deviations
    and errors) are left out.
    """
    matcher = re.compile(re.escape(pattern).replace(r"\{k\}", r"(\d+)") + r"/([^/]+)")
    matches = [match for match in map(matcher.fullmatch, metrics) if match]
    largest = max((int(match[1]) for match in matches), default=0)
    return {
        match[0]: metrics[match[0]]
        for match in matches
        if int(match[1]) == largest and (score_names is None or match[2] in score_names)
    }


def _scores(tasks: Sequence[Task], names: Sequence[str], answer_key: str) -> Iterator[_Scored]:
    answers: list[list[str | None]] | None = None
    if any(answer_key in row for task in tasks for row in task):
        answers = [[_answer(row.get(answer_key)) for row in task] for task in tasks]
    for name in names:
        scores = [[_score(row, name) for row in task] for task in tasks]
        votes = None
        if answers is not None:
            votes = [majorities(*task) for task in zip(answers, scores, strict=True)]
        yield _Scored(name, _by_size(scores), votes)
    if answers is not None:
        absent = [[float(answer is None) for answer in task] for task in answers]
        # a vote has no answer only when nobody votes
        yield _Scored(NO_ANSWER, _by_size(absent), [list(accumulate(task, min)) for task in absent])


def _by_size(scores: Sequence[Sequence[float]]) -> list[FloatArray]:
    sizes: dict[int, list[Sequence[float]]] = {}
    for task in scores:
        sizes.setdefault(len(task), []).append(task)
    return [np.array(sizes[size]) for size in sorted(sizes)]


def _best_of(ascending: Sequence[FloatArray], k: int) -> float:
    """Return the expected maximum of k scores, averaged over the tasks with at least k. Each row is
    sorted in ascending order.
    """
    maxima = [expected_max_of_sorted(rows, k) for rows in ascending if rows.shape[1] >= k]
    return float(np.concatenate(maxima).mean())


def _of_first(scored: _Scored, k: int) -> Iterator[tuple[str, float]]:
    """Yield the metrics of the first k rollouts of each task."""
    average = f"{AVERAGE.format(k=k)}/{scored.name}"
    first = scored.first(k)
    yield average, 100 * float(first.mean())
    if k > 1:
        across = 100 * float(first.mean(axis=0).std(ddof=1))
        yield f"{average}/std_dev_across_runs", across
        yield f"{average}/std_err_across_runs", across / k**0.5
        yield f"{average}/avg_sample_std_dev", 100 * float(first.std(axis=1, ddof=1).mean())
    if scored.majorities is not None:
        first_majorities = [task[k - 1] for task in scored.majorities if len(task) >= k]
        yield f"majority@{k}/{scored.name}", 100 * sum(first_majorities) / len(first_majorities)


def _score(row: JsonObject, name: str) -> float:
    number = as_number(row.get(name))
    if number is None or not np.isfinite(number.value):
        raise RejectedRows(
            f"score {name!r} of a rollout is {row.get(name)!r}, not a finite number",
            hint="every verify response must hold every score that is aggregated",
        )
    return number.value


def answer_text(value: object) -> str:
    """Return an answer as text for comparing votes, so that any JSON value can be an answer."""
    return value if isinstance(value, str) else repr(value)


def _answer(value: object) -> str | None:
    return None if value is None else answer_text(value)

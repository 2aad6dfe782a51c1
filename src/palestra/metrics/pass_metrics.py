"""The metrics of repeated attempts, as environments report them: percent, under the field's keys.

Every metric of k attempts is over the tasks that have at least k rollouts. `no_answer` is a
score of its own where answers are extracted: 1 for a rollout without one.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from palestra.errors import RejectedRows
from palestra.metrics.columns import REWARD, FloatArray, as_number
from palestra.metrics.passk import expected_max_of_sorted, majorities
from palestra.schema import JsonDict, JsonObject

Task = Sequence[JsonObject]
"""The rollouts of one task, in order of rollout index."""

NO_ANSWER = "no_answer"
AVERAGE = "pass@1[avg-of-{k}]"


@dataclass(frozen=True, slots=True)
class _Scored:
    """One score of every rollout of every task, and what votes are worth at every k.

    `matrices`: tasks with one number of rollouts, a row each in order of rollout index.
    `majorities`: per task, for k = 1, 2, … what the vote of its first k is worth; None where no
    answers are extracted.
    """

    name: str
    matrices: Sequence[FloatArray]
    majorities: Sequence[Sequence[float]] | None

    @property
    def most(self) -> int:
        """The largest number of rollouts of a task."""
        return max((rows.shape[1] for rows in self.matrices), default=0)

    def first(self, k: int) -> FloatArray:
        """The first k scores of every task that has k."""
        return np.concatenate([rows[:, :k] for rows in self.matrices if rows.shape[1] >= k])


def compute_pass_majority_metrics(
    tasks: Sequence[Task],
    *,
    score_names: Sequence[str] = (REWARD,),
    answer_key: str = "extracted_answer",
) -> JsonDict:
    """pass@k, pass^k, pass@1[avg-of-k] and, where answers are extracted, majority@k, for every k.

    `pass@{k}/{name}`: expected best score among k of a task's rollouts, which for 0/1 scores is
    the unbiased pass@k. The field takes the maximum of the *first* k for other scores; this is
    the same on average, and does not depend on order.
    `pass^{k}/{name}`: expected worst score among k, for 0/1 scores the chance that all k succeed.
    `pass@1[avg-of-{k}]/{name}`: mean score of the first k rollouts; with `/std_dev_across_runs`
    and `/std_err_across_runs` over the k runs (run i is every task's i-th rollout) and
    `/avg_sample_std_dev`, the mean over tasks of the deviation within a task.
    `majority@{k}/{name}`: score of the answer the first k vote for; see `majority_at_k`.
    `per_sample_aggregate`: by score, the mean of every run.
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
    answer_key: str = "extracted_answer",
) -> JsonDict:
    """The same metrics for each value of a field, under `{value}/…`; a task's first row decides.

    Tasks without the field are in no subset.
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
    """The metrics `pattern/{name}` at the largest k there is; `{k}` stands for k in the pattern.

    Without `score_names`, all scores; what follows a second slash (spreads) is left out.
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
    """Mean over the tasks that have k of the expected maximum of k."""
    maxima = [expected_max_of_sorted(rows, k) for rows in ascending if rows.shape[1] >= k]
    return float(np.concatenate(maxima).mean())


def _of_first(scored: _Scored, k: int) -> Iterator[tuple[str, float]]:
    """What is made of the first k rollouts of each task."""
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
    """An answer as votes compare it: as text, so that any JSON value can be voted for."""
    return value if isinstance(value, str) else repr(value)


def _answer(value: object) -> str | None:
    return None if value is None else answer_text(value)

"""A batch in numbers: one flat dict for wandb, MLflow or TensorBoard, and one line for the log.

It is computed from outcomes alone, so it is the same for every client.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, final

from palestra.errors import FAILURES
from palestra.training.outcomes import Completed, Failed, Outcome, Summary

UNKNOWN_AGENT: Final = "unknown"
_PARTS: Final = ("model", "tool", "verify")
_SUMS: Final = (
    *("rollouts/attempts", "rollouts/masked", "rollouts/truncated"),
    *(f"time/{part}_s" for part in ("queue", "total", *_PARTS, "idle", "unreported", "overlap")),
    *("tokens/input", "tokens/output", "tokens/trainable"),
    *("weights/mixed", "weights/unknown"),
)


@final
class _Tally:
    """The numbers of some rollouts."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.rewards: list[float] = []
        self.versions: list[int] = []
        """The oldest weight version of each completed rollout, where it is known."""
        self.longest_s = 0.0
        self.most_output = 0

    def add(self, outcome: Outcome) -> None:
        """Add one rollout."""
        if isinstance(outcome, Failed):
            self.failures[outcome.failure.value] += 1
            self.sums["rollouts/attempts"] += outcome.attempts
            self.sums["rollouts/retries"] += max(0, outcome.attempts - 1)
            return
        self.rewards.append(outcome.reward)
        self.sums.update(_numbers_of(outcome))
        self.longest_s = max(self.longest_s, outcome.timings.total_s)
        self.most_output = max(self.most_output, outcome.usage.output_tokens)
        if outcome.oldest_weights is not None:
            self.versions.append(outcome.oldest_weights)

    def metrics(self, summary: Summary, weight_version: int | None) -> dict[str, float]:
        """Return the numbers by name. The counts are those of `summary`."""
        failed = sum(summary.failed.values())
        numbers: dict[str, float] = {
            "rollouts/requested": summary.requested,
            "rollouts/completed": summary.completed,
            "rollouts/failed": failed,
            "rollouts/pending": summary.pending,
            "rollouts/measured": len(self.rewards) + self.failures.total(),
            "rollouts/retries": summary.retried,
        }
        numbers |= {f"failed/{kind}": summary.failed.get(kind.value, 0) for kind in FAILURES}
        numbers |= {name: self.sums[name] for name in _SUMS}
        numbers |= {"rollouts/masked": summary.masked, "rollouts/truncated": summary.truncated}
        numbers |= {"time/longest_s": self.longest_s, "tokens/output_longest": self.most_output}
        return numbers | self._values(weight_version)

    def _values(self, weight_version: int | None) -> dict[str, float]:
        """Return the numbers that there are only when some rollout has a value."""
        numbers: dict[str, float] = {}
        if self.rewards:
            numbers["reward/mean"] = math.fsum(self.rewards) / len(self.rewards)
            numbers |= {"reward/lowest": min(self.rewards), "reward/highest": max(self.rewards)}
        if self.versions:
            numbers["weights/oldest"] = min(self.versions)
            numbers["weights/newest"] = max(self.versions)
            if weight_version is not None:
                numbers["weights/age_highest"] = weight_version - min(self.versions)
                mean = sum(self.versions) / len(self.versions)
                numbers["weights/age_mean"] = weight_version - mean
        return numbers

    def summary(self) -> Summary:
        """Return the counts of these rollouts."""
        completed = len(self.rewards)
        return Summary(
            requested=completed + self.failures.total(),
            completed=completed,
            failed=dict(self.failures),
            pending=0,
            masked=self.sums["rollouts/masked"],
            truncated=self.sums["rollouts/truncated"],
            retried=self.sums["rollouts/retries"],
        )


@final
class BatchMeter:
    """Adds up the numbers of rollouts as they end, without keeping the rollouts."""

    def __init__(self) -> None:
        self._all = _Tally()
        self._agents: defaultdict[str, _Tally] = defaultdict(_Tally)

    def add(self, outcome: Outcome) -> None:
        """Add one rollout."""
        self._all.add(outcome)
        self._agents[outcome.agent or UNKNOWN_AGENT].add(outcome)

    def metrics(
        self, summary: Summary | None = None, *, weight_version: int | None = None
    ) -> dict[str, float]:
        """Return the numbers; see `batch_metrics`."""
        numbers = self._all.metrics(summary or self._all.summary(), weight_version)
        for agent in sorted(self._agents):
            tally = self._agents[agent]
            own_numbers = tally.metrics(tally.summary(), weight_version)
            numbers |= {f"agent/{agent}/{name}": value for name, value in own_numbers.items()}
        return numbers


def batch_metrics(
    outcomes: Iterable[Outcome],
    summary: Summary | None = None,
    *,
    weight_version: int | None = None,
) -> dict[str, float]:
    """Return a batch in numbers, by names that do not change.

    `summary`: the submission's, for the counts of rollouts that are not among the outcomes; without
    it, the counts are those of the outcomes. `weight_version`: the current one, for the age of the
    weights. A name that has no value, such as the mean reward of no rollout, is left out.
    """
    meter = BatchMeter()
    for outcome in outcomes:
        meter.add(outcome)
    return meter.metrics(summary, weight_version=weight_version)


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Return the numbers of `batch_metrics` as one line for the log."""
    return " | ".join(_phrases(metrics))


def _numbers_of(outcome: Completed) -> dict[str, float]:
    """Return the sums that one completed rollout adds to."""
    usage, timings = outcome.usage, outcome.timings
    numbers: dict[str, float] = {
        "rollouts/attempts": outcome.attempt,
        "rollouts/retries": max(0, outcome.attempt - 1),
        "rollouts/masked": outcome.masked,
        "rollouts/truncated": outcome.truncated,
        "time/queue_s": timings.queue_s,
        "time/total_s": timings.total_s,
        "tokens/input": usage.input_tokens,
        "tokens/output": usage.output_tokens,
        "tokens/trainable": 0 if outcome.masked else _trainable(outcome),
        "weights/mixed": len(outcome.weight_versions) > 1,
        "weights/unknown": outcome.oldest_weights is None,
    }
    reported = {part: getattr(timings, f"{part}_s") or 0.0 for part in _PARTS}
    numbers |= {f"time/{part}_s": seconds for part, seconds in reported.items()}
    remainder_s = timings.total_s - math.fsum(reported.values())
    # An agent that reports its calls reports that of the verifier.
    name = "unreported" if timings.verify_s is None else "idle"
    name = "overlap" if remainder_s < 0 else name
    return numbers | {f"time/{name}_s": abs(remainder_s)}


def _trainable(outcome: Completed) -> int:
    """Return the number of sampled ids with a loss mask of 1."""
    return sum(len(turn.generated_ids) for turn in outcome.turns if turn.is_trained)


def _phrases(metrics: Mapping[str, float]) -> Iterator[str]:
    rollouts = {name: f"{metrics[f'rollouts/{name}']:g}" for name in _ROLLOUTS_SHOWN}
    kinds = [
        f"{kind} {metrics[f'failed/{kind}']:g}" for kind in FAILURES if metrics[f"failed/{kind}"]
    ]
    yield (
        f"requested {rollouts['requested']} = completed {rollouts['completed']} "
        f"({rollouts['masked']} masked) + failed {rollouts['failed']}"
        + (f" ({', '.join(kinds)})" if kinds else "")
        + f" + pending {rollouts['pending']}"
    )
    if "reward/mean" in metrics:
        yield f"reward {metrics['reward/mean']:.4g}"
    parts = (*_PARTS, "idle", "unreported")
    seconds = ", ".join(f"{part} {metrics[f'time/{part}_s']:.1f}" for part in parts)
    yield f"{metrics['time/total_s']:.1f} s of rollouts: {seconds}"
    yield f"queue {metrics['time/queue_s']:.1f} s"
    yield f"tokens {metrics['tokens/input']:g} read, {metrics['tokens/output']:g} sampled"
    yield f"retries {rollouts['retries']}"
    if "weights/age_highest" in metrics:
        yield f"oldest weights {metrics['weights/age_highest']:g} versions behind"


_ROLLOUTS_SHOWN: Final = ("requested", "completed", "masked", "failed", "pending", "retries")

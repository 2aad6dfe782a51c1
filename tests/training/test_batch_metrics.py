"""A batch in numbers: the sums add up, whoever computes them."""

import random
from typing import Any

import pytest
from msgspec.structs import replace
from outcome_samples import completed, failed
from training_world import AGENT, requests, trainer

from palestra.errors import FAILURES, VerifierError
from palestra.training import (
    Completed,
    FailureClass,
    Key,
    Outcome,
    Summary,
    Timings,
    batch_metrics,
    metrics_line,
)

PARTS = ("model", "tool", "verify", "idle", "unreported")


def made_outcomes(count: int, seed: int = 0) -> list[Outcome]:
    """Outcomes of every kind, by chance."""
    chance = random.Random(seed)
    outcomes: list[Outcome] = []
    for task in range(count):
        agent = chance.choice(["a", "b", ""])
        if chance.random() < 0.3:
            outcomes.append(
                replace(
                    failed(task),
                    failure=chance.choice(FAILURES),
                    attempts=chance.randrange(4),
                    agent=agent,
                )
            )
            continue
        parts: list[Any] = [chance.choice([None, chance.random()]) for _ in range(3)]
        timings = Timings(chance.random(), 2 * chance.random(), *parts)
        outcomes.append(completed(task=task, agent=agent, attempt=1, timings=timings))
    return outcomes


def test_requested_is_completed_and_failed_and_pending() -> None:
    metrics = batch_metrics(made_outcomes(500))

    failures = sum(metrics[f"failed/{kind}"] for kind in FAILURES)
    assert metrics["rollouts/failed"] == failures
    assert metrics["rollouts/requested"] == 500 == metrics["rollouts/completed"] + failures


def test_the_parts_of_the_time_are_all_of_it() -> None:
    outcomes = made_outcomes(500)
    metrics = batch_metrics(outcomes)

    total_s = sum(item.timings.total_s for item in outcomes if isinstance(item, Completed))
    parts_s = sum(metrics[f"time/{part}_s"] for part in PARTS)
    assert metrics["time/total_s"] == pytest.approx(total_s)
    assert parts_s - metrics["time/overlap_s"] == pytest.approx(total_s)


def test_the_agents_add_up_to_the_batch() -> None:
    metrics = batch_metrics(made_outcomes(500))

    for name in ("rollouts/requested", "failed/timeout", "time/idle_s", "tokens/output"):
        by_agent = [metrics[f"agent/{agent}/{name}"] for agent in ("a", "b", "unknown")]
        assert sum(by_agent) == pytest.approx(metrics[name])


def test_time_that_nobody_reported_is_not_called_idle() -> None:
    elsewhere = completed(timings=Timings(0.5, 4.0, 1.0))
    here = completed(timings=Timings(0.5, 4.0, 1.0, None, 1.0))

    metrics = batch_metrics([elsewhere, here])

    assert (metrics["time/unreported_s"], metrics["time/idle_s"]) == (3.0, 2.0)


def test_the_counts_of_a_summary_are_kept() -> None:
    summary = Summary(requested=9, completed=4, failed={"timeout": 2}, pending=3, retried=5)

    metrics = batch_metrics([completed()], summary)

    assert (metrics["rollouts/requested"], metrics["rollouts/pending"]) == (9, 3)
    assert (metrics["rollouts/retries"], metrics["rollouts/measured"]) == (5, 1)


def test_no_reward_is_no_number() -> None:
    names = batch_metrics([failed()])

    assert "reward/mean" not in names
    assert {"time/idle_s", "failed/timeout", "tokens/output"} <= set(names)


def test_the_age_of_weights_is_counted_from_the_current_version() -> None:
    metrics = batch_metrics([completed()], weight_version=9)

    assert (metrics["weights/oldest"], metrics["weights/age_highest"]) == (7, 2)
    assert metrics["weights/mixed"] == 1


def test_the_line_is_one_line_with_the_counts() -> None:
    line = metrics_line(batch_metrics([completed(), failed()]))

    assert "\n" not in line
    assert "requested 2 = completed 1 (0 masked) + failed 1 (infra_error 1)" in line


@pytest.mark.anyio
async def test_the_metrics_of_a_client_agree_with_its_summary() -> None:
    def script(key: Key, attempt: int) -> float:
        if key.rollout_index == 1:
            raise VerifierError("it raised")
        return 1.0

    async with trainer(script, on_incomplete="mask") as (client, _, _):
        async with client.submit(requests(3, 2)) as batch:
            outcomes = await batch.gather()
        summary = batch.summary()

    assert batch_metrics(outcomes) == batch_metrics(outcomes, summary)
    assert {outcome.agent for outcome in outcomes} == {AGENT}
    assert summary.failed == {FailureClass.VERIFIER_ERROR: 3}

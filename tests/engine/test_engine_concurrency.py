"""The limit that follows how an endpoint copes, against one that is simulated."""

import pytest
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st
from simulated_endpoint import SimulatedRun

from palestra.engine.concurrency import ConcurrencyLimit


@pytest.mark.parametrize("capacity", [10, 16, 65, 100, 400, 1000])
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_it_settles_at_the_capacity(capacity: int, spread: float) -> None:
    run = SimulatedRun(lambda _now: capacity, spread=spread)
    run.run(ConcurrencyLimit(16_000), until=300)

    _, mean, most = run.settled(since=150)
    assert 0.7 * capacity <= mean <= 1.3 * capacity
    assert most <= 1.5 * capacity


@pytest.mark.parametrize("capacity", [40, 100, 1000])
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_when_the_capacity_drops_to_a_quarter_it_follows(capacity: int, spread: float) -> None:
    run = SimulatedRun(lambda now: capacity if now < 200 else capacity / 4, spread=spread)
    run.run(ConcurrencyLimit(16_000), until=500)

    _, mean, _ = run.settled(since=350)
    assert 0.7 * capacity / 4 <= mean <= 1.35 * capacity / 4


def test_when_the_capacity_comes_back_it_follows() -> None:
    run = SimulatedRun(lambda now: 25 if 100 < now < 200 else 100, spread=0.2)
    run.run(ConcurrencyLimit(16_000), until=900)

    assert 70 <= run.settled(since=700)[1] <= 130


def test_an_endpoint_without_bounds_gets_everything_soon() -> None:
    run = SimulatedRun(lambda _now: 1e9, spread=0.5)
    run.run(ConcurrencyLimit(5_000), until=60)

    assert run.limits[-1][1] == 5_000


def test_rollouts_that_become_longer_are_no_overload() -> None:
    run = SimulatedRun(lambda _now: 100, latency_s=lambda now: 2.0 if now < 100 else 8.0)
    run.run(ConcurrencyLimit(16_000), until=900)

    assert 70 <= run.settled(since=600)[1] <= 160


@pytest.mark.parametrize("spread", [0.8])
def test_rollouts_of_very_different_lengths_do_not_stop_it(spread: float) -> None:
    means = []
    for seed in range(5):
        run = SimulatedRun(lambda _now: 200, spread=spread, seed=seed)
        run.run(ConcurrencyLimit(16_000), until=400)
        means.append(run.settled(since=200)[1] / 200)

    assert min(means) >= 0.4
    assert max(means) <= 1.8


def test_one_refusal_among_many_means_nothing() -> None:
    limit = ConcurrencyLimit(1000, first=500)
    for _ in range(24):
        limit.refused(now=1.0, in_flight=500)
    assert limit.limit == 500
    limit.refused(now=1.0, in_flight=500)
    assert limit.limit == 350


def test_what_is_refused_while_it_goes_back_does_not_count_again() -> None:
    limit = ConcurrencyLimit(1000, first=100)
    for _ in range(100):
        limit.refused(now=1.0, in_flight=100)
    assert limit.limit == 70
    limit.refused(now=9.0, in_flight=70, count=50)
    assert limit.limit == 49


reports = st.lists(
    st.tuples(
        st.booleans(),
        st.floats(0, 5),
        st.floats(0.001, 100),
        st.integers(0, 2000),
        st.integers(1, 50),
    ),
    max_size=300,
)


@trials(max_examples=100, deadline=None)
@given(reports=reports, most=st.integers(1, 1000))
def test_whatever_it_hears_it_stays_between_one_and_the_most(
    reports: list[tuple[bool, float, float, int, int]], most: int
) -> None:
    limit = ConcurrencyLimit(most)
    now = 0.0
    for refused, passed, latency, in_flight, count in reports:
        now += passed
        if refused:
            limit.refused(now=now, in_flight=in_flight, count=count)
        else:
            limit.answered(began=now - latency, now=now, in_flight=in_flight)
        assert 1 <= limit.limit <= most


@trials(max_examples=25, deadline=None)
@given(capacity=st.integers(1, 60), seed=st.integers(0, 99), rollouts=st.integers(1, 400))
def test_no_rollout_is_lost(capacity: int, seed: int, rollouts: int) -> None:
    run = SimulatedRun(lambda _now: capacity, spread=0.5, seed=seed, rollouts=rollouts)
    run.run(ConcurrencyLimit(rollouts), until=1e9)

    assert run.ended == rollouts

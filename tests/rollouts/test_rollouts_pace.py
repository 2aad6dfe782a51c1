"""How fast a collection is, and how it goes."""

import pytest

from palestra.engine import Job
from palestra.rollouts import Health, Pace
from palestra.rollouts.pace import PaceReading, span_text
from palestra.schema import RolloutKey

WAITING = [Job(awaiting="the endpoint of policy_model", key=RolloutKey(0, 0), agent="a")] * 8


def read(pace: Pace, now: float, *, ended_count: int, remaining: int = 100) -> PaceReading:
    fields = {
        "started": 0.0,
        "ended_count": ended_count,
        "remaining": remaining,
        "in_flight": len(WAITING),
    }
    return pace.read(now, jobs=lambda: WAITING, **fields)


def ended_each_second(until: int, *, failed_after: int = 1_000) -> Pace:
    pace = Pace()
    for second in range(1, until + 1):
        pace.attempt_ended(float(second), failed=second > failed_after, is_last=True)
    return pace


def test_where_nothing_ends_the_time_left_gives_way_to_what_is_awaited() -> None:
    reading = read(ended_each_second(30), 220.0, ended_count=30)

    assert (reading.health, reading.left_s) == (Health.STANDING_STILL, None)
    assert "nothing has ended for 3 min 10 s; 8 wait for the endpoint" in reading.sentence


def test_rollouts_that_end_as_usual_are_healthy() -> None:
    reading = read(ended_each_second(30), 34.0, ended_count=30)

    assert reading.health is Health.HEALTHY
    assert reading.left_s == pytest.approx(100 / reading.rate)


def test_slow_rollouts_do_not_stand_still_between_two_ends() -> None:
    pace = Pace()
    for hundreds in range(1, 11):
        pace.attempt_ended(100.0 * hundreds, failed=False, is_last=True)
    reading = read(pace, 1_090.0, ended_count=10)

    assert reading.health is Health.HEALTHY
    assert reading.rate == pytest.approx(0.01, rel=0.2)


def test_a_wave_of_equal_rollouts_is_silent_for_as_long_as_one_takes() -> None:
    pace = Pace()
    for _ in range(64):
        pace.attempt_ended(60.0, failed=False, is_last=True)

    assert read(pace, 110.0, ended_count=64).health is Health.HEALTHY
    assert read(pace, 130.0, ended_count=64).health is Health.STANDING_STILL


def test_attempts_that_fail_are_counted_of_the_last_ones() -> None:
    reading = read(ended_each_second(60, failed_after=45), 60.5, ended_count=60)

    assert reading.health is Health.FAILING
    assert reading.sentence.startswith("15 of the last 50 attempts failed")


def test_a_rate_of_less_than_half_is_slow() -> None:
    pace = ended_each_second(600)
    for second in range(604, 700, 4):
        pace.attempt_ended(float(second), failed=False, is_last=True)

    assert read(pace, 700.0, ended_count=625).health is Health.SLOW


@pytest.mark.parametrize(("ended_count", "is_known"), [(7, False), (8, True)])
def test_the_time_left_is_known_once_as_many_have_ended_as_are_in_flight(
    ended_count: int, is_known: bool
) -> None:
    reading = read(ended_each_second(ended_count), ended_count + 0.5, ended_count=ended_count)

    assert reading.health is Health.HEALTHY
    assert (reading.left_s is not None) is is_known


def test_before_the_first_end_no_pace_is_known() -> None:
    reading = read(Pace(), 20.0, ended_count=0)

    assert (reading.health, reading.left_s) == (Health.STARTING, None)


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.2, "12 s"), (200, "3 min 20 s"), (7_200, "2 h"), (93_600, "1 d 2 h")]
)
def test_a_time_span_has_at_most_two_units(seconds: float, text: str) -> None:
    assert span_text(seconds) == text

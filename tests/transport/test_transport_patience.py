"""How long a run goes on asking an endpoint that refuses everything."""

from dataclasses import dataclass

import pytest

from palestra.errors import EndpointRefuses, RowIdentity
from palestra.transport import CallContext, HttpClient, Patience, Refusals, ServerClient


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def of(refusals: Refusals, run: str = "run", patience_s: float = 120.0) -> Patience:
    patience = refusals.patience_of(CallContext(RowIdentity(run=run), patience_s=patience_s))
    assert patience is not None
    return patience


def test_nobody_s_patience_ends_where_no_limit_is_set() -> None:
    refusals = Refusals()

    assert refusals.patience_of(CallContext(RowIdentity(run="run"))) is None
    assert refusals.patience_of(CallContext(patience_s=1.0)) is None


def test_nothing_but_refusals_for_so_long_ends_the_run() -> None:
    clock = Clock()
    with of(Refusals(clock)) as patience:
        patience.sent()
        patience.refused()
        assert patience.left_s == 120.0
        clock.now += 119.0
        patience.check("answered 429")
        clock.now += 1.0

        with pytest.raises(EndpointRefuses, match="all 1 requests of the last 120 s were refused"):
            patience.check("answered 429")


def test_one_answer_of_any_request_of_the_run_begins_anew() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals) as refused, of(refusals) as answered:
        refused.refused()
        clock.now += 100.0
        answered.sent()
        answered.answered()
        clock.now += 100.0
        refused.refused()

        assert refused.left_s == 120.0
        refused.check("answered 429")


def test_a_refused_row_counts_neither_way() -> None:
    clock = Clock()
    with of(Refusals(clock)) as patience:
        patience.refused()
        clock.now += 120.0
        patience.sent()
        patience.returned()

        with pytest.raises(EndpointRefuses):
            patience.check("answered 429")


def test_a_request_that_was_sent_before_the_first_refusal_is_waited_for() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals) as long, of(refusals) as refused:
        long.sent()
        clock.now += 1.0
        refused.refused()
        clock.now += 500.0
        refused.check("answered 429")
        long.refused()

        with pytest.raises(EndpointRefuses):
            refused.check("answered 429")


def test_a_request_that_takes_much_longer_than_refusals_do_is_waited_for() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals) as served, of(refusals) as refused:
        refused.refused()
        clock.now += 1.0
        served.sent()
        clock.now += 300.0
        assert refused.left_s is None
        refused.check("answered 429")
        served.refused()

        with pytest.raises(EndpointRefuses):
            refused.check("answered 429")


def test_slow_refusals_are_refusals() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals) as first, of(refusals) as second:
        first.sent()
        clock.now += 60.0
        first.refused()
        clock.now += 40.0
        second.sent()
        clock.now += 80.0

        with pytest.raises(EndpointRefuses):
            first.check("answered 504")


def test_runs_have_their_patience_each_for_itself() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals, "one") as one, of(refusals, "two") as two:
        one.refused()
        clock.now += 120.0
        two.refused()

        two.check("answered 429")
        with pytest.raises(EndpointRefuses):
            one.check("answered 429")


def test_a_run_that_was_stopped_and_goes_on_has_its_patience_anew() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals) as patience:
        patience.refused()
    clock.now += 3600.0

    with of(refusals) as patience:
        patience.refused()
        assert patience.left_s == 120.0


def test_the_pause_between_two_calls_is_part_of_the_streak() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals) as patience:
        patience.refused()
    clock.now += 3.0

    with of(refusals) as patience:
        patience.refused()
        assert patience.left_s == 117.0


def test_a_run_that_ended_while_it_was_refused_is_forgotten() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals, "ended") as patience:
        patience.refused()
    clock.now += 61.0

    of(refusals, "next")

    assert len(refusals) == 1


def test_a_call_that_names_no_run_is_of_the_only_one() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with of(refusals) as patience:
        patience.refused()
        clock.now += 100.0
        foreign = refusals.patience_of(CallContext(RowIdentity(0, 0)))
        assert foreign is not None
        assert foreign.left_s == 20.0

        of(refusals, "another")
        assert refusals.patience_of(CallContext()) is None


def test_the_endpoints_of_a_process_share_the_streak_of_a_run() -> None:
    client = ServerClient({}, HttpClient())
    context = CallContext(RowIdentity(0, 0, run="r"), patience_s=120.0)
    judge, policy = client.refusals.patience_of(context), client.refusals.patience_of(context)
    assert judge is not None
    assert policy is not None

    with judge, policy:
        judge.refused()
        assert judge.left_s is not None
        policy.answered()

        assert judge.left_s is None

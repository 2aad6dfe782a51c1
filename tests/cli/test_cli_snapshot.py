"""The numbers of a running collection."""

from palestra.cli.snapshot import RateMeter
from palestra.engine import Accounting, Job, ScoredEnding
from palestra.errors import Outcome
from palestra.rollouts import Progress
from palestra.schema import RolloutKey


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(requested: int = 1000, **fields: int) -> tuple[Progress, RateMeter, Clock]:
    clock = Clock()
    progress = Progress(Accounting(requested), started=0.0, **fields)
    return progress, RateMeter(progress, clock=clock), clock


def end(progress: Progress, count: int, at: float | None) -> None:
    """End rollouts. `at`: None in an earlier session."""
    for _ in range(count):
        if at is not None:
            progress.pace.attempt_ended(at, failed=False, is_last=True)
        progress.accounting.score(ScoredEnding(Outcome.SCORED, 0.5, 10))


def test_the_recent_rate_forgets_what_was_before_the_last_minute() -> None:
    progress, meter, clock = watched()
    for second in range(1, 161):
        clock.now = float(second)
        end(progress, 5 if second <= 100 else 2, clock.now)
        now = meter.read()

    assert (now.rate, now.overall_rate) == (2.0, 620 / 160)
    assert now.token_rate == 20.0
    assert now.left_s == (1000 - 620) / 2


def test_what_an_earlier_session_did_is_no_rate_of_this_one() -> None:
    progress, meter, clock = watched(done_before=100, tokens_before=1000)
    end(progress, 100, None)
    end(progress, 10, 5.0)
    clock.now = 10.0
    now = meter.read()

    assert (now.done, now.rate, now.overall_rate, now.token_rate) == (110, 1.0, 1.0, 10.0)


def test_before_anything_has_ended_nobody_knows_how_long_it_takes() -> None:
    _, meter, clock = watched()
    clock.now = 3.0
    now = meter.read()

    assert (now.rate, now.left_s, now.mean_reward) == (0.0, None, None)


def test_the_five_oldest_are_named_oldest_first() -> None:
    progress, meter, clock = watched()
    for started in range(9):
        progress.in_flight[RolloutKey(started, 1)] = Job(
            "/verify",
            "env /verify",
            float(started + 1),
            key=RolloutKey(started, 1),
            agent="agent",
            started=float(started),
            attempt=2,
        )
    clock.now = 20.0
    slowest = meter.read().slowest

    assert [slow.rollout for slow in slowest] == ["0:1", "1:1", "2:1", "3:1", "4:1"]
    assert (slowest[0].age_s, slowest[0].phase_s) == (20.0, 19.0)
    assert (slowest[0].phase, slowest[0].awaiting) == ("verify", "env /verify")


def test_the_commonest_failures_come_first() -> None:
    progress, meter, _ = watched()
    for outcome in (Outcome.TIMEOUT, Outcome.INFRA_ERROR, Outcome.INFRA_ERROR):
        progress.accounting.fail(outcome)

    assert meter.read().classes == (("infra_error", 2), ("timeout", 1))

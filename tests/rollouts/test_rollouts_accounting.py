"""requested = the sum of how rollouts ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.engine import Accounting, AccountingError, ScoredEnding
from palestra.errors import Outcome
from palestra.schema import RolloutKey


def ended(requested: int, *outcomes: Outcome) -> Accounting:
    made = Accounting(requested)
    for outcome in outcomes:
        if outcome.has_reward:
            made.score(ScoredEnding(outcome, 0.5, 10))
        else:
            made.fail(outcome)
    return made


def test_the_line_is_the_identity() -> None:
    made = ended(4, Outcome.SCORED, Outcome.SCORED, Outcome.SCORED, Outcome.SCORED)

    assert made.line() == "requested 4 = scored 4 + failed 0"


def test_the_line_names_each_kind_of_failure() -> None:
    made = ended(4, Outcome.SCORED, Outcome.TIMEOUT, Outcome.INFRA_ERROR, Outcome.TIMEOUT)

    assert made.line() == "requested 4 = scored 1 + failed 3 (infra_error 1, timeout 2)"


def test_truncated_rollouts_are_scored_and_said() -> None:
    made = ended(2, Outcome.SCORED, Outcome.TRUNCATED)

    assert made.line() == "requested 2 = scored 2, 1 of them truncated + failed 0"


def test_answers_that_say_nothing_are_scored_and_said() -> None:
    made = Accounting(2)
    made.score(ScoredEnding(Outcome.SCORED, 0.0, empty=True))
    made.score(ScoredEnding(Outcome.SCORED, 1.0, 10))

    assert made.line() == "requested 2 = scored 2, 1 of them empty answers + failed 0"


def test_rollouts_whose_tools_broke_are_counted_and_the_commonest_named() -> None:
    made = Accounting(3)
    made.score(ScoredEnding(Outcome.SCORED, 0.0, 10, ("look_up: KeyError", "look_up: KeyError")))
    made.score(ScoredEnding(Outcome.SCORED, 0.0, 10, ("look_up: KeyError",)))
    made.score(ScoredEnding(Outcome.SCORED, 1.0, 10))

    told = "2 of them with tool failures (look_up: KeyError 3)"
    assert made.line() == f"requested 3 = scored 3, {told} + failed 0"


def test_the_rollout_with_the_lowest_reward_is_remembered() -> None:
    made = Accounting(3)
    for number, reward in enumerate((0.5, -1.0, 0.0)):
        made.score(ScoredEnding(Outcome.SCORED, reward), RolloutKey(number, 0))

    assert made.lowest == RolloutKey(1, 0)


def test_an_early_end_shows_what_did_not_run() -> None:
    made = ended(5, Outcome.SCORED, Outcome.DATA_ERROR)

    assert made.line() == "requested 5 = scored 1 + failed 1 (data_error 1) + not run 3"


@pytest.mark.parametrize("requested", [0, 2])
def test_a_sum_that_does_not_add_up_is_a_bug_of_ours(requested: int) -> None:
    with pytest.raises(AccountingError, match=f"requested {requested} rollouts, but 1 scored"):
        ended(requested, Outcome.SCORED).check()


def test_the_mean_is_over_scored_rollouts_only() -> None:
    assert ended(3, Outcome.SCORED, Outcome.TRUNCATED, Outcome.TIMEOUT).mean_reward == 0.5
    assert ended(1, Outcome.TIMEOUT).mean_reward is None


def test_a_run_without_rollouts_is_covered() -> None:
    assert ended(0).coverage == 1.0
    assert ended(0).line() == "requested 0 = scored 0 + failed 0"


@given(st.lists(st.sampled_from(Outcome)))
def test_what_ended_is_scored_or_failed_and_never_both(outcomes: list[Outcome]) -> None:
    made = ended(len(outcomes), *outcomes)

    made.check()
    assert made.scored + made.failed == len(outcomes)
    assert made.remaining == 0

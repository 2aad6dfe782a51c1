import pytest

from palestra.errors import ConfigError
from palestra.training import (
    Attempts,
    ClientSettings,
    FailureClass,
    OnIncomplete,
    OnStale,
    OnViolation,
)


def test_a_policy_may_be_spelt() -> None:
    found = ClientSettings(
        on_incomplete="drop_group",  # type: ignore[arg-type]  # as a config file has it
        on_discontinuity="split",  # type: ignore[arg-type]  # too
        on_stale="abort",  # type: ignore[arg-type]  # too
    ).checked()

    assert found.on_incomplete is OnIncomplete.DROP_GROUP
    assert found.on_discontinuity is OnViolation.SPLIT
    assert found.on_stale is OnStale.ABORT


def test_budgets_may_be_spelt_by_class() -> None:
    spelt = Attempts(most={"infra": 5})  # type: ignore[dict-item]  # as a config file has it

    (kind,) = ClientSettings(attempts=spelt).checked().attempts.most

    assert kind is FailureClass.INFRA


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"on_incomplete": "ignore"}, "one of raise, drop_group, mask, return_partial"),
        ({"on_stale": None}, "one of keep, drop, abort"),
        ({"attempts": Attempts(most={"infro": 2})}, "'infro'"),  # type: ignore[dict-item]  # wrong
        ({"attempts": Attempts(most={FailureClass.INFRA: 0})}, "at least 1"),
        ({"attempts": Attempts(nan_retries=-1)}, "nan_retries is -1"),
        ({"max_staleness": -1}, "max_staleness is -1"),
        ({"rollout_timeout_s": 0}, "more than 0 seconds"),
        ({"min_group_fraction": 0.0}, "above 0"),
        ({"in_flight": 0}, "at least 1"),
        ({"memory_reserve": 1.0}, "below 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ClientSettings(**given).checked()  # type: ignore[arg-type]  # wrong on purpose


def test_pauses_double_up_to_the_longest_however_many_there_were() -> None:
    budget = Attempts(first_pause_s=0.5, longest_pause_s=30.0)

    assert [budget.pause_s(count) for count in (1, 2, 3, 10, 5000)] == [0.5, 1.0, 2.0, 30.0, 30.0]

import contextlib
from typing import Any

import pytest

from palestra.errors import ConfigError
from palestra.fleet import Fleet
from palestra.training import (
    Attempts,
    ClientSettings,
    FailureClass,
    OnIncomplete,
    OnStale,
    OnViolation,
    RolloutClient,
    SyncRolloutClient,
)

INFRA = FailureClass.INFRA_ERROR
NAN = float("nan")


def test_a_policy_may_be_spelt() -> None:
    found = ClientSettings(
        on_incomplete="drop_group",  # type: ignore[arg-type]  # as a config file has it
        on_discontinuity="split",  # type: ignore[arg-type]  # too
        on_stale="abort",  # type: ignore[arg-type]  # too
        max_staleness=1,
    ).checked()

    assert found.on_incomplete is OnIncomplete.DROP_GROUP
    assert found.on_discontinuity is OnViolation.SPLIT
    assert found.on_stale is OnStale.ABORT


def test_budgets_may_be_spelt_by_class() -> None:
    spelt = Attempts(most={"infra_error": 5})  # type: ignore[dict-item]  # as a config file has it

    (kind,) = ClientSettings(attempts=spelt).checked().attempts.most

    assert kind is FailureClass.INFRA_ERROR


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"on_incomplete": "ignore"}, "one of raise, drop_group, mask, return_partial"),
        ({"on_stale": None}, "one of keep, drop, abort"),
        ({"attempts": Attempts(most={"infro": 2})}, "'infro'"),  # type: ignore[dict-item]  # wrong
        ({"attempts": Attempts(most={INFRA: 0})}, "at least 1"),
        ({"attempts": Attempts(nan_retries=-1)}, "nan_retries is -1"),
        ({"max_staleness": -1}, "max_staleness is -1"),
        ({"on_stale": "abort"}, "max_staleness is None"),
        ({"on_stale": "continue"}, "max_staleness is None"),
        ({"rollout_timeout_s": 0}, "of seconds above 0"),
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


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"in_flight": "8"}, "in_flight is '8'; it must be a whole number, at least 1"),
        ({"in_flight": 2.5}, "in_flight is 2.5"),
        ({"in_flight": True}, "in_flight is True"),
        ({"max_staleness": "1"}, "max_staleness is '1'; .* or None"),
        ({"rollout_timeout_s": NAN}, "rollout_timeout_s is nan; it must be a finite number"),
        ({"batch_timeout_s": -1}, "batch_timeout_s is -1"),
        ({"call_timeout_s": 0}, "call_timeout_s is 0"),
        ({"endpoint_patience_s": 0}, "endpoint_patience_s is 0"),
        ({"stuck_after_s": -1}, "stuck_after_s is -1"),
        ({"min_group_fraction": "half"}, "min_group_fraction is 'half'"),
        ({"memory_reserve": NAN}, "memory_reserve is nan"),
        ({"token_ids": "yes"}, "token_ids is 'yes'"),
        ({"agent": None}, "agent is None"),
        ({"attempts": {"infra": 3}}, "attempts is {'infra': 3}; it must be an Attempts"),
        ({"attempts": Attempts(most={INFRA: "x"})}, r"attempts.most\[infra_error\] is 'x'"),  # type: ignore[dict-item]  # wrong
        ({"attempts": Attempts(first_pause_s=-1)}, "attempts.first_pause_s is -1"),
        ({"in_flight": 0, "max_bytes": 0}, "in_flight is 0; .*; max_bytes is 0"),
    ],
)
def test_a_setting_of_another_kind_is_named_with_what_is_allowed(
    given: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        ClientSettings(**given).checked()  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("settings", [{"in_flight": 3}, "settings.yaml"])
def test_settings_are_an_object_and_no_dict(settings: Any) -> None:
    with pytest.raises(ConfigError, match="must be a ClientSettings"):
        RolloutClient(contextlib.nullcontext(), settings)
    with pytest.raises(ConfigError, match="must be a ClientSettings"):
        SyncRolloutClient(contextlib.nullcontext, settings)


def test_what_is_no_fleet_is_refused_at_once() -> None:
    anything: Any = object()

    with pytest.raises(ConfigError, match="it must be a configuration or a fleet"):
        RolloutClient(anything)
    with pytest.raises(ConfigError, match="a function that makes a fleet"):
        SyncRolloutClient(anything)
    for given in ({}, "mcqa.yaml"):
        with pytest.raises(ConfigError, match=f"not a {type(given).__name__}"):
            Fleet(given)  # type: ignore[arg-type]  # wrong on purpose

"""A reward is a finite number, and nothing else is one."""

import math
from typing import Any

import pytest

from palestra.schema import VerifyResponse, finite_reward, no_reward


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(("value", "reward"), [(True, 1.0), (0, 0.0), (-0.5, -0.5), (10**20, 1e20)])
def test_a_finite_number_is_a_reward(value: Any, reward: float) -> None:
    assert finite_reward(value) == reward


@pytest.mark.parametrize("value", [None, "1.0", [1.0], math.nan, math.inf, 10**400])
def test_anything_else_is_none(value: Any) -> None:
    assert finite_reward(value) is None


@pytest.mark.parametrize("value", [None, "x" * 10_000_000, Unprintable()], ids=type)
def test_what_was_given_instead_is_shown_in_a_line(value: Any) -> None:
    assert no_reward(value).endswith(", which is not a reward")
    assert len(no_reward(value)) < 300


def test_a_message_has_no_address_so_that_equal_failures_have_equal_messages() -> None:
    assert " at 0x" not in no_reward([object()])
    assert no_reward([object()]) == no_reward([object()])


def test_a_number_with_too_many_digits_to_print_is_no_reward() -> None:
    assert finite_reward(10**5000) is None
    assert "cannot be shown" in no_reward(10**5000)


def test_evidence_of_a_reward_goes_through_unchanged() -> None:
    evidence = {"polite": [{"item": 0, "start": 0, "end": 6}]}
    fields = {
        "responses_create_params": {"input": "hi"},
        "response": {"id": "r", "created_at": 0, "model": "m", "output": []},
    }

    verdict = VerifyResponse.model_validate({**fields, "reward": 1.0, "reward_evidence": evidence})

    assert verdict.model_dump(exclude_unset=True)["reward_evidence"] == evidence

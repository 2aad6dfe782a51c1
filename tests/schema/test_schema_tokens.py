"""Token ids and log probs are judged by one checker, with the position of the first bad value."""

from typing import Any

import pytest

from palestra.schema import bad_id_at, bad_log_prob_at


@pytest.mark.parametrize("bad", [-1, True, 1.0, "7", None, 2**64])
def test_the_first_value_that_is_no_token_id_is_named(bad: Any) -> None:
    assert bad_id_at([0, 2**63]) is None
    assert bad_id_at([0, bad, -1]) == 1


@pytest.mark.parametrize("bad", [0.5, float("nan"), float("-inf"), "0", None, -(10**400)])
def test_the_first_value_that_is_no_log_probability_is_named(bad: Any) -> None:
    assert bad_log_prob_at([-1.5, 0, 1e-4]) is None
    assert bad_log_prob_at([-1e308, -1e308]) is None
    assert bad_log_prob_at([-1.5, bad, 3.0]) == 1

"""Token ids and log probs are judged by one checker, with the position of the first bad value."""

from typing import Any

import pytest

from palestra.schema import TokenFault, TokenVerdict, TurnTokens


@pytest.mark.parametrize("bad", [-1, True, 1.0, "7", None, 2**63, 2**70])
@pytest.mark.parametrize("field", ["prompt_token_ids", "generation_token_ids"])
def test_the_first_value_that_is_no_token_id_is_named(field: str, bad: Any) -> None:
    fine, spoilt = [0, 2**63 - 1, 1], [0, bad, -1]
    lists = (spoilt, fine) if field == "prompt_token_ids" else (fine, spoilt)

    assert TurnTokens(fine, fine, [-1.0] * 3).verdict == TokenVerdict()
    assert TurnTokens(*lists, [-1.0] * 3).verdict.ids == TokenFault(
        field, 1, f"{bad!r} is not a token id"
    )


@pytest.mark.parametrize("bad", [0.5, float("nan"), float("-inf"), "0", None, -(10**400)])
def test_the_first_value_that_is_no_log_probability_is_named(bad: Any) -> None:
    assert TurnTokens([1], [1, 2, 3], [-1.5, 0, 1e-4]).verdict == TokenVerdict()
    assert TurnTokens([1], [1, 2], [-1e308, -1e308]).verdict == TokenVerdict()

    fault = TurnTokens([1], [1, 2, 3], [-1.5, bad, 3.0]).verdict.log_probs

    assert fault is not None
    assert (fault.field, fault.position) == ("generation_log_probs", 1)

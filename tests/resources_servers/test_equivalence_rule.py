from difflib import SequenceMatcher
from typing import Any

import pytest
from verifying import agrees, post_verify, recorded, said, verify

from palestra.resources_servers.equivalence_rule.app import (
    EquivalenceRuleConfig,
    EquivalenceRuleServer,
)
from palestra.transport import HttpClient, ServerClient

EXPECTED = "k7QwSpring tides follow the full moon."
NEAR = "k7QwSpring tides follow a full moon."


def server_with(**settings: Any) -> EquivalenceRuleServer:
    config = EquivalenceRuleConfig(name="under_test", **settings)
    return EquivalenceRuleServer(config=config, server_client=ServerClient({}, HttpClient()))


def score(text: str, server: EquivalenceRuleServer | None = None, **row: Any) -> float:
    result = verify(server or server_with(), {"expected_answer": EXPECTED, **row}, said(text))
    assert result["equivalence_score"] == result["reward"]
    return result["reward"]


def test_recorded_rollouts_get_their_recorded_rewards() -> None:
    server = server_with()

    assert [r for row, r in recorded("equivalence_rule") if not agrees(server, row, r)] == []


@pytest.mark.parametrize("rule", ["exact", "sequence_match", "weighted"])
def test_the_same_text_is_worth_one_and_none_nothing(rule: str) -> None:
    assert score(f"\n{EXPECTED} ", rule=rule) == 1.0
    assert score("", rule=rule) == 0.0


def test_an_exact_answer_is_asked_for_unless_something_else_is() -> None:
    assert score(NEAR) == 0.0
    assert score(EXPECTED.lower()) == 0.0


def test_matching_parts_count_by_sequence_match() -> None:
    ratio = SequenceMatcher(None, NEAR, EXPECTED).ratio()

    assert 0.9 < score(NEAR, rule="sequence_match") == ratio < 1


def test_weighted_leaves_a_part_to_the_exact_answer() -> None:
    server = server_with(rule="weighted", exact_weight=0.25)

    assert score(NEAR, server) == 0.75 * SequenceMatcher(None, NEAR, EXPECTED).ratio()


@pytest.mark.slow
def test_a_comparison_without_end_is_stopped_and_worth_nothing() -> None:
    hostile = "".join(chr(0x4E00 + n % 150) for n in range(300_000))

    assert score(hostile, rule="sequence_match", expected_answer=hostile[:6000][::-1]) == 0.0


@pytest.mark.slow
def test_a_row_that_nothing_can_be_compared_with_is_at_fault() -> None:
    endless = "".join(chr(0x4E00 + n % 150) for n in range(300_000))
    row = {"expected_answer": endless, "rule": "sequence_match"}

    status, body = post_verify(server_with(), row, said(endless[1:]))

    assert (status, body["error"]["type"]) == (422, "data_error")


@pytest.mark.parametrize("fields", [{"expected_answer": " "}, {"rule": "fuzzy"}])
def test_a_row_that_cannot_be_scored_is_the_rows_fault(fields: dict[str, Any]) -> None:
    row = {"expected_answer": EXPECTED, **fields}

    status, body = post_verify(server_with(), row, said("a"))

    assert (status, body["error"]["type"]) == (422, "data_error")

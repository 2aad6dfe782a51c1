"""Blackjack and the dialogue: their rules, and scoring their stored episodes again."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import (
    agrees,
    example_rows,
    post_verify,
    recorded,
    recorded_results,
    response,
    said,
    server_of,
)

from palestra.resources_servers.blackjack.app import (
    RANKS,
    BlackjackRow,
    BlackjackServer,
    BlackjackTable,
    draw_card,
    hand_value,
    payout,
    read_hand,
    write_hand,
)
from palestra.resources_servers.example_multi_turn_gymnasium.app import (
    Dialogue,
    DialogueServer,
    names,
)
from palestra.schema import Response
from palestra.server import Episode, Session, Step

COLLECTED = {"_ng_task_index", "_ng_rollout_index", "agent_ref"}
"""What the collector, not the environment, adds to a result."""
HANDS = st.lists(st.sampled_from(RANKS), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("hand", "worth"),
    [
        ("A K", 21),
        ("A A", 12),
        ("A A 9", 21),
        ("A 5 9", 15),
        ("10 J Q", 30),
        ("2 3 A", 16),
    ],
)
def test_a_hand_is_worth_what_blackjack_says(hand: str, worth: int) -> None:
    assert hand_value(hand.split()) == worth


@given(HANDS)
def test_a_written_hand_is_read_back(hand: list[str]) -> None:
    assert read_hand(write_hand(hand)) == hand


@pytest.mark.parametrize("text", ["", "[]", "[1]", "8, 5", "[8,5]", None, [8]])
def test_what_is_no_hand_is_not_read(text: object) -> None:
    assert read_hand(text) is None


def test_every_rank_is_as_likely_as_any() -> None:
    deck = random.Random(0)
    counts = dict.fromkeys(RANKS, 0)
    for _ in range(13_000):
        counts[draw_card(deck)] += 1

    assert all(850 < count < 1150 for count in counts.values())


def told(step: Step) -> tuple[float, Any]:
    return step.reward, step.info.get("result")


def play(player: str, dealer: str, *turns: str, seed: int = 1) -> list[Step]:
    server = server_of(BlackjackServer)
    table = BlackjackTable(random.Random(seed), player.split(), dealer.split())
    episode = Episode(table)
    steps = []
    for text in turns:
        answer = Response.model_validate(response(said(text)))
        steps.append(asyncio.run(server.answer(answer, episode)))
    return steps


def test_standing_lets_the_dealer_draw_to_seventeen() -> None:
    (step,) = play("K K", "9 8", "I stay. <action>Stand</action>")

    assert told(step) == (1.0, "win")
    assert step.info["dealer"] == "[9, 8]"
    assert step.terminated


def test_equal_hands_draw_and_a_lower_one_loses() -> None:
    assert told(play("K 7", "9 8", "<action>stand</action>")[0]) == (0.0, "draw")
    assert told(play("K 6", "9 8", "<action>stand</action>")[0]) == (-1.0, "loss")


def test_hitting_over_twenty_one_loses_at_once() -> None:
    steps = play("K 9 2", "9 8", "<action>hit</action>")

    assert told(steps[0]) == (-1.0, "bust")
    assert steps[0].terminated


def test_a_turn_without_an_action_is_asked_again_once() -> None:
    first, second = play("K 5", "9 8", "Let me think.", "hit")

    assert "That was no action" in str(first.observation)
    assert told(second) == (-1.0, "forfeit")


def test_the_last_action_of_a_turn_counts() -> None:
    (step,) = play("K K", "9 8", "<action>hit</action> no, <action>stand</action>")

    assert told(step) == (1.0, "win")


def test_a_seed_deals_the_same_cards_and_sessions_differ_without() -> None:
    async def dealt(seed: int | None, session: str) -> str:
        opened = await server_of(BlackjackServer).reset(BlackjackRow(seed=seed), Session(session))
        return str(opened.observation)

    assert asyncio.run(dealt(3, "a")) == asyncio.run(dealt(3, "b"))
    assert len({asyncio.run(dealt(None, str(n))) for n in range(8)}) > 4


@pytest.mark.parametrize(
    ("info", "reward"),
    [
        ({"result": "bust", "player": "[8, 5, 3, Q]", "value": 26}, -1.0),
        ({"result": "win", "player": "[10, 3]", "dealer": "[A, 5, 9, 10]"}, 1.0),
        ({"result": "win", "player": "[10, 3]", "dealer": "[10, 7]"}, -1.0),
        ({"result": "forfeit"}, -1.0),
    ],
)
def test_a_stored_hand_is_paid_by_its_cards(info: dict[str, Any], reward: float) -> None:
    status, body = post_verify(
        server_of(BlackjackServer), {"terminated": True, "info": info}, said("x")
    )

    assert (status, body["reward"]) == (200, reward)


def test_a_stored_hand_without_cards_cannot_be_scored_again() -> None:
    status, _ = post_verify(server_of(BlackjackServer), {"terminated": True}, said("x"))

    assert status == 422


@given(HANDS, HANDS)
def test_nobody_wins_both(player: list[str], dealer: list[str]) -> None:
    if max(hand_value(player), hand_value(dealer)) <= 21:
        assert payout(player, dealer)[1] == -payout(dealer, player)[1]


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("It has **2 hydrogen atoms**.", "2", True),
        ("It has 12 of them.", "2", False),
        ("20.5 percent", "20", False),
        ("That makes 20.", "20", True),
        ("the EIFFEL tower", "Eiffel", True),
        ("eiffelish", "Eiffel", False),
        ("", "2", False),
    ],
)
def test_an_answer_is_named_as_a_word(text: str, expected: str, found: bool) -> None:
    assert names(text, expected) is found


def test_follow_ups_are_put_in_order_and_the_last_answer_is_scored() -> None:
    server, episode = server_of(DialogueServer), Episode()
    episode.state = Dialogue(follow_ups=["Second?", "Third?"], expected_answer="3")
    steps = []
    for text in ("3", "3", "it is 3"):
        answer = Response.model_validate(response(said(text)))
        steps.append(asyncio.run(server.answer(answer, episode)))
        episode.add(steps[-1])

    assert [step.observation for step in steps] == ["Second?", "Third?", None]
    assert [step.reward for step in steps] == [0.0, 0.0, 1.0]
    assert episode.terminated


def test_a_dialogue_that_was_not_ended_has_no_reward() -> None:
    row = {"follow_ups": ["Second?"], "expected_answer": "3"}
    status, body = post_verify(server_of(DialogueServer), row, said("3"))

    assert (status, body["reward"], body["terminated"]) == (200, 0.0, False)


def test_recorded_dialogues_get_the_reward_they_had() -> None:
    for row, result in recorded("example_multi_turn_gymnasium"):
        made = {key: value for key, value in result.items() if key not in COLLECTED}
        assert agrees(server_of(DialogueServer), row, made)


def test_recorded_hands_get_the_reward_they_had() -> None:
    for result in recorded_results("blackjack"):
        made = {key: value for key, value in result.items() if key not in COLLECTED}
        assert agrees(server_of(BlackjackServer), made, made)


def test_example_rows_have_seeds() -> None:
    assert len({row["seed"] for row in example_rows("blackjack")}) == 5

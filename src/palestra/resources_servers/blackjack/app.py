"""`BlackjackServer`: one hand of blackjack, played one card at a time.

The player hits or stands. A hand over 21 loses at once. After a stand, the dealer draws up to
seventeen.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from palestra.errors import RowError
from palestra.schema import (
    JsonDict,
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    response_of,
)
from palestra.server import (
    Episode,
    Opening,
    ReverifyMode,
    RewardRules,
    Session,
    Step,
    TurnsServer,
)

_ACTION = re.compile(r"<action>\s*(hit|stand)\s*</action>", re.IGNORECASE)
ASK = "Respond with <action>hit</action> or <action>stand</action>."
BUST_REWARD = -1.0

RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
BEST = 21
DEALER_STANDS = 17

Hand = Sequence[str]


class BlackjackRow(WireModel):
    """The fields of a row."""

    seed: int | None = None
    """The same seed deals the same cards. Without a seed, every rollout gets its own cards."""


@dataclass(slots=True)
class BlackjackTable:
    """The state of one hand: the deck, and the cards of the player and the dealer."""

    deck: random.Random
    player: list[str] = field(default_factory=list)
    dealer: list[str] = field(default_factory=list)
    asked_again: bool = False

    def observation(self) -> str:
        """Return the text that the model sees: its hand, the dealer's first card, and the two
        actions.
        """
        return (
            f"Your hand: {write_hand(self.player)} = {hand_value(self.player)}\n"
            f"Dealer shows: {self.dealer[0]}\n{ASK}"
        )


class BlackjackServer(TurnsServer):
    """A resources server that deals the cards and gives reward 1.0, 0.0 or -1.0."""

    repeatable: ClassVar[bool | None] = True

    reverify_mode: ClassVar[ReverifyMode] = "stateless"

    reward_rules: ClassVar[RewardRules] = RewardRules(
        lowest=-1.0,
        unsure={
            "other": "what wins one hand may win another",
            "echo": "the prompt names both actions, the last of them as one to take",
        },
    )

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the hits and the stand that win this hand.

        None when the hand cannot be won, or when the row has no seed and so the cards are random.
        """
        seed = row.get("seed")
        for hits in range(BEST if seed is not None else 0):
            deck = random.Random(seed)
            dealt = [draw_card(deck) for _ in range(4 + hits)]
            player, dealer = [*dealt[0:4:2], *dealt[4:]], dealt[1:4:2]
            if hand_value(player) > BEST:
                return None
            if _stood(BlackjackTable(deck, player, dealer)).reward > 0:
                return response_of(*["<action>hit</action>"] * hits, "<action>stand</action>")
        return None

    async def reset(self, body: BlackjackRow, session: Session) -> Opening:
        """Deal two cards to the player and two to the dealer, one of which stays hidden."""
        table = BlackjackTable(random.Random(session.id if body.seed is None else body.seed))
        self.begin(session, table)
        for hand in (table.player, table.dealer) * 2:
            hand.append(draw_card(table.deck))
        return Opening(observation=table.observation())

    async def answer(self, turn: Response, episode: Episode) -> Step:
        """Play the model's action: deal the next card, or end the hand."""
        table: BlackjackTable = episode.state
        actions = _ACTION.findall(turn.final_text)
        if not actions:
            return _no_action(table)
        if actions[-1].lower() == "stand":
            return _stood(table)
        table.player.append(draw_card(table.deck))
        if hand_value(table.player) > BEST:
            return Step(reward=BUST_REWARD, terminated=True, info=_bust(table))
        return Step(observation=table.observation())

    async def rescored(self, body: VerifyRequest) -> VerifyResponse:
        """Compute the reward again from the hands that the recorded result holds."""
        recorded = body.model_extra or {}
        info_field = recorded.get("info")
        info: JsonDict = info_field if isinstance(info_field, dict) else {}
        reward = _paid(info) if recorded.get("terminated") is True else 0.0
        if reward is None:
            raise RowError(
                f"{self.name}/verify: the row's info has no hands of cards to score",
                hint="verify only rows that a blackjack run wrote",
            )
        return self.reply(body, reward)


def _no_action(table: BlackjackTable) -> Step:
    if table.asked_again:
        return Step(reward=BUST_REWARD, terminated=True, info={"result": "forfeit"})
    table.asked_again = True
    return Step(observation=f"That was no action.\n{table.observation()}")


def _stood(table: BlackjackTable) -> Step:
    while hand_value(table.dealer) < DEALER_STANDS:
        table.dealer.append(draw_card(table.deck))
    result, reward = payout(table.player, table.dealer)
    info = {
        "result": result,
        "player": write_hand(table.player),
        "player_value": hand_value(table.player),
        "dealer": write_hand(table.dealer),
        "dealer_value": hand_value(table.dealer),
    }
    return Step(reward=reward, terminated=True, info=info)


def _bust(table: BlackjackTable) -> JsonDict:
    return {
        "result": "bust",
        "player": write_hand(table.player),
        "value": hand_value(table.player),
    }


def _paid(info: JsonDict) -> float | None:
    player, dealer = read_hand(info.get("player")), read_hand(info.get("dealer"))
    if info.get("result") == "forfeit" or (player and hand_value(player) > BEST):
        return BUST_REWARD
    return payout(player, dealer)[1] if player and dealer else None


def draw_card(deck: random.Random) -> str:
    """Return a random card. Every rank is always equally likely, as if there were endless decks."""
    return deck.choice(RANKS)


def hand_value(hand: Hand) -> int:
    """Return the value of a hand: one ace counts 11 if the hand then stays at 21 or below."""
    hard = sum(min(RANKS.index(card) + 1, 10) for card in hand)
    return hard + 10 if "A" in hand and hard + 10 <= BEST else hard


def write_hand(hand: Hand) -> str:
    """Write a hand as text, like `[8, 5, Q]`."""
    return f"[{', '.join(hand)}]"


def read_hand(text: object) -> list[str] | None:
    """Read a hand that `write_hand` wrote; None when `text` is not such a hand."""
    if not isinstance(text, str) or not (match := re.fullmatch(r"\[(.*)\]", text)):
        return None
    hand = match[1].split(", ")
    return hand if hand and all(card in RANKS for card in hand) else None


def payout(player: Hand, dealer: Hand) -> tuple[str, float]:
    """Return the result of a completed hand ("win", "loss" or "draw") and its reward."""
    mine, theirs = hand_value(player), hand_value(dealer)
    if theirs > BEST or mine > theirs:
        return "win", 1.0
    return ("loss", -1.0) if mine < theirs else ("draw", 0.0)

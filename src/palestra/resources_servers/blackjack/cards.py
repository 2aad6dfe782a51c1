"""Cards: a rank each, drawn from an endless deck, and what a hand of them is worth."""

import random
import re
from collections.abc import Sequence

RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
BEST = 21
DEALER_STANDS = 17

Hand = Sequence[str]


def drawn(deck: random.Random) -> str:
    """A card; as if of endless decks, so that every rank is always as likely."""
    return deck.choice(RANKS)


def value(hand: Hand) -> int:
    """What the hand is worth: one ace counts 11 where that does not bust it."""
    hard = sum(min(RANKS.index(card) + 1, 10) for card in hand)
    return hard + 10 if "A" in hand and hard + 10 <= BEST else hard


def written(hand: Hand) -> str:
    """`[8, 5, Q]`."""
    return f"[{', '.join(hand)}]"


def read(text: object) -> list[str] | None:
    """The hand that `written` wrote, or None."""
    if not isinstance(text, str) or not (match := re.fullmatch(r"\[(.*)\]", text)):
        return None
    hand = match[1].split(", ")
    return hand if hand and all(card in RANKS for card in hand) else None


def payout(player: Hand, dealer: Hand) -> tuple[str, float]:
    """How a hand that was played to its end came out: its name, and the reward."""
    mine, theirs = value(player), value(dealer)
    if theirs > BEST or mine > theirs:
        return "win", 1.0
    return ("loss", -1.0) if mine < theirs else ("draw", 0.0)

"""How much of two texts is the same, by difflib; a worker's task.

The matcher's time grows with the square of the texts and worse.
"""

from difflib import SequenceMatcher


def ratio(answer: str, expected: str) -> float:
    """From 0.0, nothing, to 1.0, all of it."""
    return SequenceMatcher(None, answer, expected).ratio()

"""Compute the similarity of two texts with difflib. Runs in a worker process.

The matcher takes quadratic time or worse.
"""

from difflib import SequenceMatcher


def ratio(answer: str, expected: str) -> float:
    """Return the similarity of two texts, from 0.0 (nothing in common) to 1.0 (equal)."""
    return SequenceMatcher(None, answer, expected).ratio()

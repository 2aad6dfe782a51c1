"""Nearest spellings, for hints after a misspelt name."""

from collections.abc import Iterable


def nearest(word: str, words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The one of `words` that looks most like `word`, or None when none does.

    `cutoff` is the least similarity, from 0 (anything) to 1 (equal).
    """
    import difflib

    close = difflib.get_close_matches(str(word), sorted(map(str, words)), n=1, cutoff=cutoff)
    return close[0] if close else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`"; did you mean 'x'?"`, or nothing; to be appended to a message."""
    near = nearest(word, words)
    return f"; did you mean {near!r}?" if near is not None else ""

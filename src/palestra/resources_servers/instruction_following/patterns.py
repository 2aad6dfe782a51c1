"""Search for the words that rows ask for, which the published checker reads as regular expressions.

A backtracking search cannot be interrupted, so only expressions that cannot take long are run as
such; any other, and what is none, stands for its own characters: "C++", "A+", "5*3".
"""

import re
from typing import Final

_REPEATS: Final = re.compile(r"[*+{]|\(\?")
_FORKS: Final = re.compile(r"[?|]")
_MOST_FORKS: Final = 4
"""Each doubles the ways to match at one place."""


def keyword_pattern(keyword: str, *, whole_words: bool = False) -> re.Pattern[str]:
    """What finds `keyword` in either case; with `whole_words` only between word boundaries."""
    edge = r"\b" if whole_words else ""
    if not _REPEATS.search(keyword) and len(_FORKS.findall(keyword)) <= _MOST_FORKS:
        try:
            return re.compile(f"{edge}{keyword}{edge}", re.IGNORECASE)
        except re.error:
            pass
    return re.compile(f"{edge}{re.escape(keyword)}{edge}", re.IGNORECASE)


def count_matches(pattern: re.Pattern[str], text: str) -> int:
    """How often it occurs, without overlaps."""
    return sum(1 for _ in pattern.finditer(text))

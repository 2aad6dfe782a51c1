"""The text that a regular expression needs: a fast test before a slow search.

A search that ignores case takes microseconds, and the table has hundreds of patterns. Few of their
needed texts stand in a message.
"""

import re
from typing import Final

_CLASS: Final = re.compile(r"(?<!\\)\[\^?\]?(?:\\.|[^\]\\])*\]")
_INNERMOST_GROUP: Final = re.compile(r"(?<!\\)\((?:[^()\\]|\\.)*\)")
_ALTERNATIVES: Final = re.compile(r"(?<!\\)\|")
_OPTIONAL: Final = re.compile(r"(?:\\.|[^\\])(?:[?*]|\{[^}]*\})[?+]?")
_NOT_LITERAL: Final = re.compile(r"\\.|[^\w \-:/,'\";=<>@%&!#]")
_GAP: Final = "\0"


def needed_text(pattern: str) -> str:
    """Return the longest text, in lower case, that stands in everything that `pattern` matches
    outside of groups, classes and optional parts; empty without one.
    """
    outside = _CLASS.sub(_GAP, pattern)
    while (without := _INNERMOST_GROUP.sub(_GAP, outside)) != outside:
        outside = without
    if _ALTERNATIVES.search(outside):
        return ""
    return max(_NOT_LITERAL.split(_OPTIONAL.sub(_GAP, outside)), key=len).lower()

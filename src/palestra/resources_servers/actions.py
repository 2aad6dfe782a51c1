"""The action that a model marks in its turn: `<action>…</action>`."""

import re
from typing import Final

_TAG: Final = re.compile(r"<(/?)action>", re.IGNORECASE)


def last_action(text: str) -> str | None:
    """What stands between the last `</action>` with an `<action>` before it, and that one.

    In one pass: a pattern for the whole would look for its end anew at every tag of a text that
    has thousands of them.
    """
    found: str | None = None
    begun: int | None = None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            begun = tag.end()
        elif begun is not None:
            found = text[begun : tag.start()]
            begun = None
    return None if found is None else found.strip()

"""Find the action that a model marks in its response: `<action>…</action>`."""

import re
from typing import Final

_TAG: Final = re.compile(r"<(/?)action>", re.IGNORECASE)


def last_action(text: str) -> str | None:
    """Return the text of the last `<action>…</action>` in `text`; None when there is none.

    The text is scanned once, tag by tag. One regular expression for the whole element would be
    slow: it would search for the end again at each of thousands of tags.
    """
    action: str | None = None
    start: int | None = None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            action = text[start : tag.start()]
            start = None
    return None if action is None else action.strip()

"""Search with a row's own regular expression, which runs where it can be killed.

A backtracking search cannot be interrupted from inside its process, and which text makes it slow
is up to the model.
"""

import re
import warnings
from typing import Final

from palestra.resources_servers.stopped import Call, Stopped, value_of
from palestra.sandbox import Workers

LIMIT_S: Final = 1.0
"""Of a core."""
LONGEST_PATTERN: Final = 1_000
LONGEST_TEXT: Final = 100_000
"""Characters searched, from the end: the answer is what a model writes last."""


async def search(workers: Workers, pattern: str, text: str, *, prompt: str) -> str | None:
    """`last_match` in a worker; None also when nothing is found in time.

    Raises RowError for a pattern that does not come to an end on the row's own prompt either.
    """
    function = f"{__name__}:{last_match.__name__}"
    searched, own = (Call(function, (pattern, each[-LONGEST_TEXT:])) for each in (text, prompt))
    field = "template_metadata.output_regex"
    try:
        found = await value_of(workers, searched, alone=own, field=field, limit_s=LIMIT_S)
    except Stopped:
        return None
    return None if found is None else str(found)


def last_match(pattern: str, text: str) -> str | None:
    """The first group (else the whole) of the last match, if there is any."""
    last = None
    with warnings.catch_warnings(action="ignore"):
        for last in re.finditer(pattern, text):  # noqa: B007  # the last match is what we want
            pass
    if last is None:
        return None
    found: str | None = last[1] if last.re.groups else last[0]
    # Half a surrogate pair cannot be sent back.
    return None if found is None else found.encode("utf-8", "replace").decode()

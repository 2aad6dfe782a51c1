"""What the recorded output of a call says: whether it was refused when it was made.

Told from its shape wherever that tells: an object with an `error` is a refusal; a record, an id, a
path is what was made. A plain sentence is read; those of other offices than this one as well.
"""

import re
from dataclasses import dataclass

import orjson

_MADE = re.compile(r"\S*\d\S*")
"""An id, or a path: one word with digits."""

_ECHOED = re.compile(r"\S+@\S+|'[^']*'|\"[^\"]*\"")
"""What a sentence repeats of the call."""

_REFUSES = re.compile(
    r"\b(?:no|not|none|never|nothing|cannot|\w+n['\u2019]t|unable|fail\w*|invalid|missing|must"
    r"|required|denied|refus\w*|reject\w*|unknown|unsupported|unsuccessful\w*|error|exception"
    r"|already exists)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RecordedOutput:
    """The recorded output of one call."""

    answer: object
    """As a tool of this office would have answered: `{"output": ...}`."""
    is_refused: bool


def read_output(text: str) -> RecordedOutput:
    """Read an output; never raises."""
    try:
        held = orjson.loads(text)
    except ValueError:
        held = text
    if isinstance(held, dict) and "output" not in held and held.keys() & {"error", "detail"}:
        return RecordedOutput(held, is_refused=True)
    answer = held if isinstance(held, dict) and "output" in held else {"output": held}
    return RecordedOutput(answer, _is_refusal(answer["output"]))


def _is_refusal(said: object) -> bool:
    if not isinstance(said, str) or _MADE.fullmatch(said.strip()):
        return False
    return _REFUSES.search(_ECHOED.sub(" ", said)) is not None

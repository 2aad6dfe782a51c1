"""How the composition directives are written.

    block: ${inherit_from:a.b}                 moves a.b here
    block: {_inherit_from: a.b, key: value}    the same, and siblings override
    block: ${copy:a.b}                         copies a.b here
    block: {_copy: a.b, key: value}            the same, and siblings override
    block: {..., _delete_key: "k1, k2"}        removes keys; a list works too

We read the string forms ourselves: as OmegaConf resolvers they would be global state.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOVE: Final = "_inherit_from"
COPY: Final = "_copy"
DELETE: Final = "_delete_key"

_STRING_FORM = re.compile(r"\s*\$\{\s*(inherit_from|copy)\s*:\s*([^${}]*?)\s*\}\s*")
_KEY_OF = {"inherit_from": MOVE, "copy": COPY}


@dataclass(frozen=True, slots=True)
class StringDirective:
    """A directive written as a string: `key` is `_inherit_from` or `_copy`."""

    key: str
    source: str


def string_directive(value: object) -> StringDirective | None:
    """The directive that `value` is as a whole, or None."""
    if not isinstance(value, str):
        return None
    found = _STRING_FORM.fullmatch(value)
    return StringDirective(_KEY_OF[found[1]], found[2]) if found else None


def opened(value: Any) -> Any:
    """`${copy:x}` as `{_copy: x}`, so that a key can be set beside it; else the value."""
    directive = string_directive(value)
    return {directive.key: directive.source} if directive else value


def inherits(value: object) -> bool:
    """Whether keys below `value` may come from elsewhere."""
    if isinstance(value, Mapping):
        return MOVE in value or COPY in value
    return string_directive(value) is not None

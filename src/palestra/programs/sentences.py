"""The flags and the quoted commands of `palestra` in a sentence for users."""

import re
from collections.abc import Callable
from typing import Final

PALESTRA: Final = "palestra"
_QUOTED_FLAGS: Final = re.compile(r"`(--[a-z][^`]*)`")
QUOTED_COMMAND: Final = re.compile(rf"`{PALESTRA} ([^`]+)`")
_NAMED_FLAG: Final = re.compile(
    r"(?<![\w-])(--[a-z][a-z-]*)\b"
    r"(?:[ =](?P<value>[A-Z]+(?:/[A-Z]+)?\b|\d+(?!\w|\.\w)|auto\b|restart\b|-(?!\S)|\{\w+\}))?"
)
"""A flag in the middle of a sentence, and its value: `{name}` is one of a phrase."""
_CLAUSES: Final = re.compile(r"(; |\n)")
_BARE_COMMAND: Final = re.compile(
    r"\b(?:(?:palestra|gym|ng|docker|pip|podman|ray|uv|vllm) [a-z]|(?:salloc|sbatch|srun) )"
)
"""The start of a command outside of quotes, also of another program. The flags of its clause are its
own."""


def with_each_flag(text: str, changed: Callable[[str, str], str], *, separator: str = " ") -> str:
    """Return `text` with each flag as `changed` writes it, with its value; where this is empty, the
    flag stays. `separator`: what is between quoted flags.
    """

    def flag(match: re.Match[str]) -> str:
        return changed(match[1], match["value"] or "") or match[0]

    def flags(match: re.Match[str]) -> str:
        parts = [part.partition(" ") for part in re.split(r"(?:^| )(?=--)", match[1]) if part]
        words = [changed(name, value) for name, _, value in parts]
        return f"`{separator.join(words)}`" if all(words) else match[0]

    parts = _QUOTED_FLAGS.sub(flags, text).split("`")
    for at in range(0, len(parts), 2):
        clauses = _CLAUSES.split(parts[at])
        parts[at] = "".join(
            clause if _BARE_COMMAND.search(clause) else _NAMED_FLAG.sub(flag, clause)
            for clause in clauses
        )
    return "`".join(parts)

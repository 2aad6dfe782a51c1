"""The command that verifies the kept responses of a run again, as runs record it.

Rows of a failures file and manifests have it in the field `REVERIFY_COMMAND`. Rows of older runs have
its text alone, in their hint; what it does is read from the text then.
"""

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Self

from palestra.schema.json_types import JsonDict, JsonObject
from palestra.schema.tokens import field_of

REVERIFY_COMMAND: Final = "reverify"
"""The field of a failures-file row, and of a manifest, that has the command."""
REVERIFY: Final = "`palestra reverify --with-failures`"
"""The command when the run's own arguments are unknown. It is quoted, so that an error shows it in the
words of the program that the user called."""
_FORCE: Final = "--force"
"""An option with which commands that older versions recorded end where verify needs the live session.
It scores kept answers in a fresh session, so that no advice has it.
"""
_KEPT: Final = "the model's answer is kept: "
_VERIFIES: Final = " verifies it without the model"
_JUDGE: Final = "--judge"
_PALESTRA: Final = "palestra reverify"


@dataclass(frozen=True, slots=True)
class ReverifyCommand:
    """A command that verifies the kept responses of a run again."""

    text: str
    needs_session: bool = False
    """Whether one of its environments verifies in its live session alone, so that the command works
    only after its class says how verify does without.
    """
    names_judge: bool = False
    """Whether an option of it names the judge's model."""

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Return the command in the field `REVERIFY_COMMAND` of a row or a manifest, decoded as a
        mapping or an object; None when the field has none.
        """
        text = field_of(value, "command")
        if not text or not isinstance(text, str):
            return None
        needs_session = field_of(value, "needs_session") is True
        return cls(
            text.removesuffix(f" {_FORCE}") if needs_session else text,
            needs_session=needs_session,
            names_judge=field_of(value, "names_judge") is True,
        )

    def as_json(self) -> JsonDict:
        """Return the value of the field `REVERIFY_COMMAND`."""
        return {
            "command": self.text,
            "needs_session": self.needs_session,
            "names_judge": self.names_judge,
        }

    def text_for(self, rollouts: Collection[str]) -> str:
        """Return the command for these rollouts alone, such as `17:3`, where it can: commands of
        other programs cannot.
        """
        return _of_only(self.text, rollouts)


def recorded_command(row: JsonObject) -> ReverifyCommand | None:
    """Return the command that a row of a failures file records; None without one."""
    return ReverifyCommand.of(row.get(REVERIFY_COMMAND)) or command_of_hint(row.get("hint"))


def command_of_hint(hint: Any) -> ReverifyCommand | None:
    """Return the command in the hint of a row that an older version wrote; None without one."""
    if not isinstance(hint, str):
        return None
    text = hint.partition(_KEPT)[2].removesuffix(_VERIFIES)
    if not text:
        return None
    unforced = text.removesuffix(f" {_FORCE}")
    return ReverifyCommand(
        unforced, needs_session=unforced != text, names_judge=_JUDGE in text.split()
    )


def own_hint(hint: str) -> str:
    """Return the hint of a row without the command, which older versions wrote there."""
    return hint.partition(_KEPT)[0].removesuffix("; ")


def the_command(commands: Collection[ReverifyCommand]) -> ReverifyCommand | None:
    """Return the only command in `commands`; None when there is none or more than one."""
    return next(iter(commands)) if len(commands) == 1 else None


def _of_only(command: str, rollouts: Collection[str]) -> str:
    text = command.removesuffix("`")
    if not text.startswith((_PALESTRA, f"`{_PALESTRA}")):
        return command
    options = "".join(f" --only {shlex.quote(name)}" for name in rollouts)
    return f"{text}{options}{command[len(text) :]}"

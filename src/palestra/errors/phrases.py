"""What messages are made of: sentences that each program spells in its own way, and quotes."""

from collections.abc import Callable, Mapping
from typing import Any, Self


class Phrase(str):
    """A sentence of Palestra with values in it. As a text, it has the flags and commands of `palestra`.

    A program spells the sentence with the flags, overrides or arguments that its users give. The values
    are the users' own text, and stay as they are. A value that is a phrase is spelled, too.

    `template`: as for `str.format`: `Phrase("--rows {option}: {name} has no such option", …)`.
    """

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, object]

    def __new__(cls, template: str, /, **values: object) -> Self:
        phrase = super().__new__(cls, template.format(**values))
        phrase.template = template
        phrase.values = values
        return phrase

    def spelled(self, spell: Callable[[str], str]) -> str:
        """Return the text with the sentence as `spell` writes it."""
        values = {
            name: value.spelled(spell) if isinstance(value, Phrase) else value
            for name, value in self.values.items()
        }
        return spell(self.template).format(**values)

    def masked(self, mask: Callable[[str], str]) -> "Phrase":
        """Return the phrase with `mask` applied to its values."""
        values = {name: _masked(value, mask) for name, value in self.values.items()}
        return Phrase(self.template, **values)

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        """Return the arguments that make the phrase again, for copies."""
        return (self.template,), dict(self.values)


def _masked(value: object, mask: Callable[[str], str]) -> object:
    if isinstance(value, Phrase):
        return value.masked(mask)
    return mask(value) if isinstance(value, str) else value


def ends_of(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters as it is; of a longer one the beginning, the end and
    the length.
    """
    if len(text) <= limit:
        return text
    return f"{text[: limit * 3 // 4]} … {text[-limit // 4 :]} ({len(text)} characters)"

"""Make the messages of a task row from an environment's templates."""

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from palestra.config import did_you_mean
from palestra.errors import InputDataError
from palestra.schema import (
    JsonDict,
    double_brace_problem,
    doubly_braced,
    encode_json,
    short_repr,
)
from palestra.server.environments.records import RowPlaces
from palestra.server.method_forms import SELF

MOST_NAMED: Final = 10
_BRACES: Final = "a brace that is meant as one is written twice: {{ or }}"


@dataclass(frozen=True, slots=True)
class Template:
    """A text with `{field}` placeholders.

    `name`: what it is, for messages: `the prompt of shelf`. `location`: `FILE:LINE: `, where it is.
    """

    text: str
    name: str
    location: str = ""
    as_json: bool = False
    """Whether objects and lists are filled in as JSON, not as Python writes them."""
    attributes: frozenset[str] = frozenset()
    """What the author's class sets. A method can use these names as `self.NAME`, the text cannot."""
    method: str = ""
    """A method that the author can write instead of the text."""
    asks: bool = False
    """Whether it is what the model is asked, in which a field is expected."""

    def check(self, rows: Sequence[Mapping[str, Any]], row_places: RowPlaces) -> None:
        """Raise InputDataError when the text is no template, or rows lack its fields.

        `row_places`: where the rows are.
        """
        names = self.fields()
        row_fields = frozenset[str]().union(*rows)
        if self.asks and not names and (literal := doubly_braced(self.text, row_fields)):
            raise InputDataError(
                f"{self.location}{self.name} has no field: {double_brace_problem(literal[0])}"
            )
        unknown = [name for name in names if name not in row_fields]
        if unknown and rows:
            self._refuse_attribute(unknown[0])
            odd = any(not name.isidentifier() for name in unknown)
            near = "" if odd else did_you_mean(unknown[0], row_fields)
            raise InputDataError(
                f"{self.location}{self.name} cannot be filled: no row has the field {unknown[0]!r}{near}",
                hint=_BRACES
                if odd
                else f"the fields: {', '.join(sorted(row_fields)) or 'none'}; {_BRACES}",
            )
        bad = (
            f"{row_places.of(number)}: no field {name!r}{did_you_mean(name, row.keys() - names)}"
            for number, row in enumerate(rows)
            for name in names
            if name not in row
        )
        if first := list(islice(bad, MOST_NAMED)):
            raise InputDataError(
                f"{self.location}{self.name} cannot be filled: " + "; ".join(first),
                hint="" if row_places.files else "rows count from 0",
            )

    def _refuse_attribute(self, name: str) -> None:
        """Raise InputDataError when the placeholder `name` is an attribute of the author's class."""
        of_self = re.search(r"\{self\.(\w+)", self.text) if name == SELF else None
        attribute = of_self[1] if of_self else name
        if attribute in self.attributes:
            raise InputDataError(
                f"{self.location}{self.name} cannot be filled: it shows fields of the row, and "
                f"{attribute} is an attribute of the class",
                hint=f"write a method in its place, which can use self.{attribute}: {self.method}",
            )

    def filled(self, row: Mapping[str, Any], number: int) -> str:
        """Return the text with the fields of the row. `number`: the row's, for messages."""
        try:
            return (_JsonFormatter() if self.as_json else string.Formatter()).vformat(
                self.text, (), row
            )
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            raise InputDataError(
                f"{self.location}{self.name} cannot be filled: row {number}: {type(error).__name__}: {error}",
                hint=_BRACES,
            ) from None

    def null_fields(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
        """Return the placeholders that are filled with None, each with the numbers of the rows."""
        nulls: dict[str, list[int]] = {}
        names = dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(self.text) if name)
        for number, row in enumerate(rows):
            for name in names:
                with suppress(LookupError, ValueError, AttributeError, TypeError):
                    if string.Formatter().get_field(name, (), row)[0] is None:
                        nulls.setdefault(name, []).append(number)
        return nulls

    def blank_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the numbers of the rows with which the text is blank."""
        if any(literal.strip() for literal, *_ in string.Formatter().parse(self.text)):
            return []  # most templates: no need to fill them
        texts = (self.filled(row, number) for number, row in enumerate(rows))
        return [number for number, text in enumerate(texts) if not text.strip()]

    def fields(self) -> list[str]:
        """Return the fields of the row that the text shows. Raises InputDataError: it is no template."""
        try:
            parsed = list(string.Formatter().parse(self.text))
        except ValueError as error:
            raise InputDataError(
                f"{self.location}{self.name} is not a format string: {error}", hint=_BRACES
            ) from None
        # What follows a dot or a bracket is looked up in the row's field.
        fields = [re.split(r"[.\[]", name)[0] for _, name, _, _ in parsed if name is not None]
        if not all(fields) or any(name.isdigit() for name in fields):
            raise InputDataError(
                f"{self.location}{self.name} has a placeholder without a field's name",
                hint="write {question}, not {} or {0}; " + _BRACES,
            )
        return list(dict.fromkeys(fields))


class _JsonFormatter(string.Formatter):
    """Fills objects and lists in as JSON."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as text."""
        if isinstance(value, Mapping | list) and not format_spec:
            return encode_json(value).decode()
        text: str = super().format_field(value, format_spec)
        return text


def checked_messages(messages: Any, owner: str, number: int, location: str = "") -> list[JsonDict]:
    """Return what an author's `messages` returned. `location`: where the method is, for messages.

    Raises InputDataError: it is no list of messages.
    """
    items = list(messages) if isinstance(messages, Iterable) else []
    is_chat = all(isinstance(item, Mapping) and "role" in item for item in items)
    if not items or isinstance(messages, str | Mapping) or not is_chat:
        raise InputDataError(
            f"{location}messages of {owner} returned {short_repr(messages)} for row {number}",
            hint='return a list such as [{"role": "user", "content": "2 + 2 = ?"}]',
        )
    return [dict(item) for item in items]

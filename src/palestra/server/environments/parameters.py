"""Fill the parameters of an author's function by name."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from palestra.config import did_you_mean
from palestra.errors import InputDataError, RowError
from palestra.server.environments.hinted_types import HintedType, hinted_types
from palestra.server.environments.records import RowPlaces
from palestra.server.method_forms import SPREAD

TASK: Final = "task"
ANSWER: Final = "answer"
RESPONSE: Final = "response"
MEANINGS: Final[Mapping[str, str]] = {
    TASK: "the whole row",
    ANSWER: "the text of the model's last message",
    RESPONSE: "the trajectory",
}
"""What the parameters are that a field of the same name does not fill."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function that an author wrote. `self` is not one of them."""

    function: str
    """The function's name, with its parameters, for messages."""
    required: tuple[str, ...]
    optional: tuple[str, ...]
    takes_all: bool
    """Whether the function has a `**` parameter."""
    location: str = ""
    """`FILE:LINE: `, where the function begins, for the beginning of a message."""
    hints: Mapping[str, HintedType] = field(default_factory=dict)
    """The type hints, by parameter, of those that a field of the rows may contradict."""

    @classmethod
    def of(cls, function: Callable[..., Any], name: str, location: str = "") -> Self:
        """Return the parameters of a function without `self`, such as a bound method."""
        parameters = inspect.signature(function).parameters
        ordinary = {key: p for key, p in parameters.items() if p.kind not in SPREAD}
        return cls(
            function=f"{name}({', '.join(parameters)})",
            required=tuple(k for k, p in ordinary.items() if p.default is p.empty),
            optional=tuple(k for k, p in ordinary.items() if p.default is not p.empty),
            takes_all=any(p.kind is p.VAR_KEYWORD for p in parameters.values()),
            location=location,
            hints={k: h for k, h in hinted_types(function).items() if k not in MEANINGS},
        )

    @property
    def names(self) -> frozenset[str]:
        """The names of the parameters, without those that take all others."""
        return frozenset((*self.required, *self.optional))

    def asks_for(self, name: str) -> bool:
        """Whether the function has a parameter of this name."""
        return name in self.required or name in self.optional

    def filled(self, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call: those of `offered` that the function has parameters for.

        Raises RowError: the row lacks a field for a parameter without a default, or has one of another
        type than the parameter's hint.
        """
        missing = [name for name in self.required if name not in offered]
        if missing:
            raise RowError(
                f"{self.function.partition('(')[0]} asks for {', '.join(missing)}, which the row "
                "does not have",
                hint=f"this row has: {', '.join(sorted(offered))}",
            )
        for name, hint in self.hints.items():
            if not hint.fits(value := offered.get(name)):
                raise RowError(
                    f"{self.location}{self.function} takes {hint.sentence(name, value)}",
                    hint=hint.remedy(name, value),
                )
        if self.takes_all:  # the whole row is in `task` a second time
            return {n: value for n, value in offered.items() if n != TASK or self.asks_for(TASK)}
        return {name: offered[name] for name in (*self.required, *self.optional) if name in offered}

    def check(
        self,
        rows: Sequence[Mapping[str, Any]],
        filled_names: Iterable[str],
        row_places: RowPlaces,
    ) -> None:
        """Raise InputDataError for parameters that nothing fills, with the nearest names, and for fields
        of another type than the hint of their parameter.

        `filled_names`: the names that are filled besides the fields of the rows. `row_places`: where
        the rows are.
        """
        filled_names = frozenset(filled_names)
        fields = frozenset[str]().union(*rows)
        problems: list[str] = []
        for name in self.required:
            lacking = [
                n for n, row in enumerate(rows) if name not in filled_names and name not in row
            ]
            if not lacking:
                continue
            if len(lacking) == len(rows):
                near = did_you_mean(name, (filled_names | fields) - set(self.required))
                problems.append(f"{name!r}, which no row has{near}")
            else:
                problems.append(f"{name!r}, which {row_places.of(lacking[0])} does not have")
        if problems:
            raise InputDataError(
                f"{self.location}{self.function} asks for " + "; for ".join(problems),
                hint=f"its parameters may be: {', '.join(sorted(filled_names | fields))}",
            )
        for name, hint in self.hints.items():
            wrong = [n for n, row in enumerate(rows) if not hint.fits(row.get(name))]
            if wrong and name not in filled_names:
                value = rows[wrong[0]][name]
                where = row_places.counted(wrong, len(rows))
                raise InputDataError(
                    f"{self.location}{self.function} takes {hint.sentence(name, value)} in {where}",
                    hint=hint.remedy(name, value),
                )

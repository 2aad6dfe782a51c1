"""Whether a Python value is what it is after it was written as JSON and read again.

JSON has no tuple, date or NaN: such a value would be another one, or missing, for whoever reads it.
"""

import dataclasses
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

import orjson
from pydantic import BaseModel

from palestra.schema.outcomes import short_repr

_INSTEAD: Final[Sequence[tuple[type | tuple[type, ...], Callable[[Any], str]]]] = (
    (Enum, lambda value: f"its value: {short_repr(value.value)}"),
    ((date, time), lambda value: f"its text: {value.isoformat()!r}"),
    (Decimal, lambda value: f"its text, {str(value)!r}, or a float"),
    ((UUID, PurePath), lambda value: f"its text: {str(value)!r}"),
    (bytes, lambda value: f"a text: {short_repr(value.decode('utf-8', 'replace'))}"),
    (tuple, lambda value: f"a list: {short_repr(list(value))}"),
    (AbstractSet, lambda value: f"a list: {short_repr(sorted(value, key=repr))}"),
    (Mapping, lambda _: "dict(…)"),
    (BaseModel, lambda _: "its fields: ….model_dump()"),
    (Coroutine, lambda _: "its result: await the call"),
    (int, lambda _: "it as a text"),
    (float, lambda value: f"float(…): {float(value)!r}"),
    (str, lambda _: "only characters that are UTF-8"),
)
"""How to write a value of a type in JSON, where JSON has one that means the same. The first type
counts.
"""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A part of a value that JSON lacks. `problem`: what it is, with its place: `['q'] is a set`.
    `cure`: what to write instead.
    """

    problem: str
    cure: str


def json_misfit(value: Any, where: str = "", *, exact: bool = False) -> Misfit | None:
    """Return the first part of a value that JSON lacks; None when there is none.

    `where`: the place of `value`. `exact`: whether a part also counts that JSON writes as a value of
    another type, such as a tuple, which is read as a list.
    """
    if isinstance(value, Mapping):
        if wrong_keys := [key for key in value if not isinstance(key, str)]:
            key = wrong_keys[0]
            problem = f"{where or 'the row'} has the key {short_repr(key)}, which is not a text"
            return Misfit(problem, f"write {str(key)!r}")
        if inner := next(_inner_misfits(value.items(), where, exact=exact), None):
            return inner
        # The encoder takes no mapping but a dict.
        return None if isinstance(value, dict) else _misfit(value, where or "the row")
    if isinstance(value, list) or (isinstance(value, tuple) and not exact):
        return next(_inner_misfits(enumerate(value), where, exact=exact), None)
    return None if _fits(value, exact=exact) else _misfit(value, where)


def _inner_misfits(
    items: Iterable[tuple[Any, Any]], where: str, *, exact: bool
) -> Iterator[Misfit]:
    for key, item in items:
        if misfit := json_misfit(item, f"{where}[{key!r}]", exact=exact):
            yield misfit


def _fits(value: Any, *, exact: bool) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    try:
        text = orjson.dumps(value)
    except TypeError:
        return False
    return not exact or bool(orjson.loads(text) == value)


def _misfit(value: Any, where: str) -> Misfit:
    if isinstance(value, float) and not math.isfinite(value):
        return Misfit(f"{where} is {value}", f"JSON has no {value}: write None, or leave it out")
    kind = type(value)
    name = f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
    reason = ""
    if isinstance(value, int | str) and not isinstance(value, Enum):
        reason = f" ({_encoding_error(value)})"
    return Misfit(f"{where} is a {name}{reason}", f"write {_instead_of(value)}")


def _instead_of(value: Any) -> str:
    """Return how to write a value that JSON lacks."""
    if dataclasses.is_dataclass(value):
        return "its fields: dataclasses.asdict(…)"
    if hasattr(value, "tolist"):  # of NumPy
        return f"….tolist(): {short_repr(value.tolist())}"
    texts = (text(value) for kinds, text in _INSTEAD if isinstance(value, kinds))
    return next(texts, "a text, number, True, False, None, list or dict")


def _encoding_error(value: Any) -> str:
    try:
        orjson.dumps(value)
    except TypeError as error:
        return str(error)
    return "it is read as another one"

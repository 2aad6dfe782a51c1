"""Errors for request bodies that are not the message that an operation takes."""

import re
from collections.abc import Iterator
from typing import Any, Final, get_args

import msgspec

from palestra.config import nearest
from palestra.errors import InputDataError
from palestra.schema import JsonObject

_UNKNOWN: Final = re.compile(
    r"Object contains unknown field `(?P<field>[^`]*)`(?: - at `(?P<at>[^`]*)`)?"
)
_MOST_FIELDS: Final = 12


def wrong_body(
    body: bytes, kind: type[msgspec.Struct], error: msgspec.DecodeError
) -> InputDataError:
    """Return the error for a `body` that msgspec does not decode as `kind`. For an unknown field it
    has the field to write, and it always names the fields that the object may have.
    """
    unknown = _UNKNOWN.match(str(error))
    steps = re.findall(r"\.(\w+)|\[", unknown["at"] or "") if unknown else []
    struct = _struct_at(kind, steps)
    problem = str(error)
    if unknown:
        problem = f"{problem}{_instead(unknown['field'], struct, _objects_at(body, steps))}"
    fields = [field.encode_name for field in msgspec.structs.fields(struct)][:_MOST_FIELDS]
    return InputDataError(
        f"the body is no {kind.__name__}: {problem}",
        hint=f"the fields of a {struct.__name__}: {', '.join(fields)}; GET /openapi.json explains them",
    )


def _struct_at(kind: type[msgspec.Struct], steps: list[str]) -> type[msgspec.Struct]:
    """Return the message at a path of a message; `steps`: field names, and `""` for an item."""
    inner: Any = kind
    for step in steps:
        if not step:
            inner = (*get_args(inner), None)[0]
        elif isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            inner = {f.encode_name: f.type for f in msgspec.structs.fields(inner)}.get(step)
    return inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else kind


def _objects_at(body: bytes, steps: list[str]) -> Iterator[JsonObject]:
    """Yield the objects of a body at a path, of which msgspec does not say the index of an item."""
    values: list[Any] = [msgspec.json.decode(body)]
    for step in steps:
        values = [inner for value in values for inner in _inside(value, step)]
    yield from (value for value in values if isinstance(value, dict))


def _inside(value: Any, step: str) -> list[Any]:
    """Return the field `step` of an object; for an empty step, the items of a list."""
    if step:
        return [value[step]] if isinstance(value, dict) and step in value else []
    items: list[Any] = value if isinstance(value, list) else []
    return items


def _instead(name: str, struct: type[msgspec.Struct], objects: Iterator[JsonObject]) -> str:
    """Return the field that `name` stands for: the most similar one, else the only required field
    that its object lacks.
    """
    fields = msgspec.structs.fields(struct)
    near = nearest(name, (field.encode_name for field in fields))
    if near is None:
        faulty: JsonObject = next((value for value in objects if name in value), {})
        required = [field.encode_name for field in fields if field.required]
        missing = [field for field in required if field not in faulty]
        near = missing[0] if len(missing) == 1 else None
    return f"; did you mean {near!r}?" if near is not None else ""

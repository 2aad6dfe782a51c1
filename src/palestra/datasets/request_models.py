"""The request models that servers publish, as JSON Schema that rows can be held to.

A check must never refuse what the server would take. Request models coerce scalars: "5" is a
number to them, and "three" is none. So a text passes as a number or a truth value when pydantic
says so, a number without a fraction as a whole one; and a model that transforms its input before
it looks at it says so in its schema and is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from palestra.schema import CREATE_PARAMS, TRANSFORMS, TRANSFORMS_VALUE, JsonDict, JsonObject

MADE_BY_THE_RUN: Final = frozenset({CREATE_PARAMS, "response"})
"""Fields that are checked already (the parameters) or come later (the trajectory)."""
_TAKEN: Final[Mapping[str, JsonObject]] = {
    "integer": {"type": ["integer", "boolean", "string"], "format": "whole number"},
    "number": {"type": ["number", "boolean", "string"], "format": "number"},
    "boolean": {"type": ["number", "boolean", "string"], "format": "truth value"},
}
"""What passes as each kind of scalar. A format is asked of texts alone."""
_KINDS: Final[Mapping[str, type]] = {"whole number": int, "number": float, "truth value": bool}
MASK: Final = "the value"
"""Stands for what a row holds: rows that are bad in the same way are said in one line."""
LONGEST: Final = 200
"""Characters of a message that are repeated."""


_WITHOUT_EFFECT: Final = frozenset({"title", "description", "components", "$defs", "required"})
_ANYTHING: Final[JsonDict] = {"type": "object", "additionalProperties": True}


@dataclass(frozen=True, slots=True)
class RowEndpoint:
    """One endpoint that a row has to pass: what its server accepts, as JSON Schema."""

    server: str
    path: str
    schema: JsonDict


def rows_are_whole(*, is_shipped: bool, environments: Sequence[str]) -> bool:
    """Whether what an agent is given is all that its environment is given.

    Ours hand rows on unchanged; an author's own may add fields. An agent of several environments
    may choose what each is given.
    """
    return is_shipped and len(environments) == 1


def doors_in(
    document: Any, server: str, paths: tuple[str, ...], *, are_whole: bool = True
) -> list[RowEndpoint]:
    """What an OpenAPI `document` says of the bodies of `paths`; `are_whole`: rows are all of a body."""
    return [
        RowEndpoint(server, path, schema)
        for path in paths
        if (schema := _published(document, path, whole=are_whole)) is not None
    ]


def _published(document: Any, path: str, *, whole: bool) -> JsonDict | None:
    """The JSON Schema of a body, made lenient; None where there is none to hold a row to."""
    try:
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"][
            "schema"
        ]
    except (KeyError, TypeError):
        return None
    if not isinstance(schema, Mapping):
        return None
    # References of FastAPI's own routes lead into the document.
    return published_body(schema, document.get("components", {}), are_whole=whole)


def published_body(
    schema: JsonObject, components: Any, *, are_whole: bool = True
) -> JsonDict | None:
    """`schema` made lenient; None when its model transforms its input.

    `are_whole`: a row is all of the body, so that what is required must be there.
    """
    if schema.get(TRANSFORMS):
        return None
    schema_fields = schema.get("properties", {})
    marks = {
        n: field_schema.get(TRANSFORMS)
        for n, field_schema in schema_fields.items()
        if isinstance(field_schema, Mapping)
    }
    left_out = MADE_BY_THE_RUN | {name for name, mark in marks.items() if mark}
    needless = MADE_BY_THE_RUN | {
        name for name, mark in marks.items() if mark and mark != TRANSFORMS_VALUE
    }
    needed = [name for name in schema.get("required", ()) if are_whole and name not in needless]
    properties = {
        name: name in left_out or lenient(field_schema)
        for name, field_schema in schema_fields.items()
    }
    lenient_schema = {**lenient(schema), "required": needed, "properties": properties}
    return {**lenient_schema, "components": lenient(components)}


def lenient(schema: Any) -> Any:
    """`schema` with numbers and booleans accepted as any scalar, and `oneOf` as any of."""
    if isinstance(schema, list):
        return [lenient(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    lenient_schema = {key: lenient(value) for key, value in schema.items()}
    if isinstance(lenient_schema.get("oneOf"), list):
        # Lenient choices overlap, and pydantic goes by the tag, or a function of the author's.
        lenient_schema["allOf"] = [
            *lenient_schema.get("allOf", ()),
            {"anyOf": lenient_schema.pop("oneOf")},
        ]
    if isinstance(schema.get("format"), str):
        del lenient_schema["format"]  # an author's word for readers: nothing holds a text to it
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _TAKEN:
        lenient_schema |= _TAKEN[kind]
    return lenient_schema


def _text_checks() -> dict[str, Callable[[str], bool]]:
    """For each format of `_TAKEN`, whether a text passes: pydantic itself is asked."""
    from pydantic import TypeAdapter

    def check(kind: type) -> Callable[[str], bool]:
        validate = TypeAdapter(kind).validator.validate_python

        def passes(text: str) -> bool:
            try:
                validate(text)
            except ValueError:
                return False
            return True

        return passes

    return {name: check(kind) for name, kind in _KINDS.items()}


class DoorKeeper:
    """Rows before some doors, each with a compiled schema."""

    def __init__(self, doors: list[RowEndpoint]) -> None:
        from jsonschema_rs import ValidationError, validator_for

        self._validators: list[tuple[RowEndpoint, Any]] = []
        formats = _text_checks()
        for door in doors:
            if _takes_anything(door.schema):
                continue
            try:
                made = validator_for(door.schema, mask=MASK, formats=formats, validate_formats=True)
                self._validators.append((door, made))
            except (ValidationError, ValueError):
                continue  # a schema of some other draft: the server itself will have to say
        self._valid = [validator.is_valid for _, validator in self._validators]

    def admits(self, row: JsonObject) -> bool:
        """Whether `row` passes all of them."""
        for valid in self._valid:  # noqa: SIM110  # no generator: this is asked of every row
            if not valid(row):
                return False
        return True

    def problems(self, row: JsonObject) -> Iterator[str]:
        """Why `row` does not pass, with JSON pointers."""
        for door, validator in self._validators:
            for error in validator.iter_errors(row):
                pointer = "".join(f"/{part}" for part in error.instance_path)
                problem = error.message
                short = problem if len(problem) < LONGEST else f"{problem[:LONGEST]} ..."
                yield f"{pointer or '/'}: {short} (asked by {door.server}{door.path})"


def _takes_anything(schema: JsonObject) -> bool:
    """Whether any object passes: nothing is required of it, and no field is held to anything."""
    constraints = {
        key: constraint for key, constraint in schema.items() if key not in _WITHOUT_EFFECT
    }
    properties = constraints.pop("properties", {})
    if schema.get("required"):
        return False
    return constraints.items() <= _ANYTHING.items() and all(
        field_schema is True for field_schema in properties.values()
    )

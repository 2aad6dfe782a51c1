"""Check rows against the request models that servers publish as JSON Schema.

A check must never reject a row that the server accepts. Request models convert scalars: "5" is a
valid number, "three" is not. So a string passes as a number or boolean when pydantic accepts it,
and a float without a fraction passes as an integer. A model that transforms its input before
validation is marked in its schema and not checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from palestra.config import did_you_mean
from palestra.schema import CREATE_PARAMS, TRANSFORMS, TRANSFORMS_VALUE, JsonDict, JsonObject

MADE_BY_THE_RUN: Final = frozenset({CREATE_PARAMS, "response"})
"""Body fields that are not checked: the response does not exist yet, and the request parameters are
checked elsewhere, except for their names where a server takes no others than it knows."""
_TAKEN: Final[Mapping[str, JsonObject]] = {
    "integer": {"type": ["integer", "boolean", "string"], "format": "whole number"},
    "number": {"type": ["number", "boolean", "string"], "format": "number"},
    "boolean": {"type": ["number", "boolean", "string"], "format": "truth value"},
}
"""For each scalar type, the JSON types that pass. The format applies only to strings."""
_KINDS: Final[Mapping[str, type]] = {"whole number": int, "number": float, "truth value": bool}
MASK: Final = "the value"
"""The placeholder for row values in messages, so that rows with the same problem share one message.
"""
LONGEST: Final = 200
"""The maximum number of characters kept of a validation message."""


_MODELS: Final = "#/components/schemas/"
_WITHOUT_EFFECT: Final = frozenset({"title", "description", "components", "$defs", "required"})
_ANYTHING: Final[JsonDict] = {"type": "object", "additionalProperties": True}


@dataclass(frozen=True, slots=True)
class RowEndpoint:
    """One endpoint that receives rows, with the JSON Schema of the bodies that it accepts."""

    server: str
    path: str
    schema: JsonDict


def rows_are_whole(*, is_shipped: bool, environments: Sequence[str]) -> bool:
    """Whether the agent sends each row to its environment without adding fields.

    Shipped agents pass rows on unchanged; a user's own agent may add fields. An agent with several
    environments may send different fields to each.
    """
    return is_shipped and len(environments) == 1


def doors_in(
    document: Any, server: str, paths: tuple[str, ...], *, are_whole: bool = True
) -> list[RowEndpoint]:
    """Return the body schemas of `paths` in an OpenAPI `document`. `are_whole`: a row contains the
    complete body.
    """
    return [
        RowEndpoint(server, path, schema)
        for path in paths
        if (schema := _published(document, path, are_whole=are_whole)) is not None
    ]


def _published(document: Any, path: str, *, are_whole: bool) -> JsonDict | None:
    """Return the lenient JSON Schema of a request body; None when there is no schema to check
    against.
    """
    try:
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"][
            "schema"
        ]
    except (KeyError, TypeError):
        return None
    if not isinstance(schema, Mapping):
        return None
    # References of FastAPI's own routes lead into the document.
    return published_body(schema, document.get("components", {}), are_whole=are_whole)


def published_body(
    schema: JsonObject, components: Any, *, are_whole: bool = True
) -> JsonDict | None:
    """Return a lenient copy of `schema`; None when its model transforms its input.

    `are_whole`: a row contains the complete body, so required fields are checked too.
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
    if are_whole and CREATE_PARAMS in properties:
        properties[CREATE_PARAMS] = _parameter_names(schema_fields[CREATE_PARAMS], components)
    lenient_schema = {**lenient(schema), "required": needed, "properties": properties}
    return {**lenient_schema, "components": lenient(components)}


def _parameter_names(schema: Any, components: Any) -> JsonDict | bool:
    """Return a schema of the names of a request's parameters; True when the model of the parameters
    may take any name.
    """
    reference = schema.get("$ref", "") if isinstance(schema, Mapping) else ""
    if reference.startswith(_MODELS):
        schema = components.get("schemas", {}).get(reference.removeprefix(_MODELS))
    if not isinstance(schema, Mapping) or schema.get(TRANSFORMS):
        return True
    fields = schema.get("properties", {})
    marks = (field.get(TRANSFORMS) for field in fields.values() if isinstance(field, Mapping))
    if schema.get("additionalProperties") is not False or any(
        mark and mark != TRANSFORMS_VALUE for mark in marks
    ):
        return True
    return {"properties": dict.fromkeys(fields, True), "additionalProperties": False}


def lenient(schema: Any) -> Any:
    """Return `schema` changed so that numbers and booleans accept any scalar, and `oneOf` becomes
    `anyOf`.
    """
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
    """Return, for each format of `_TAKEN`, a function that tests a string with pydantic."""
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
    """Checks rows against the compiled schemas of some endpoints."""

    def __init__(self, doors: list[RowEndpoint]) -> None:
        from jsonschema_rs import ValidationError, validator_for

        self._validators: list[tuple[RowEndpoint, Any]] = []
        formats = _text_checks()
        for door in doors:
            if _takes_anything(door.schema):
                continue
            try:
                new_validator = validator_for(
                    door.schema, mask=MASK, formats=formats, validate_formats=True
                )
                self._validators.append((door, new_validator))
            except (ValidationError, ValueError):
                continue  # a schema of some other draft: the server itself will have to say
        self._valid = [validator.is_valid for _, validator in self._validators]

    def admits(self, row: JsonObject) -> bool:
        """Whether `row` passes the schemas of all endpoints."""
        for valid in self._valid:  # noqa: SIM110  # no generator: this is asked of every row
            if not valid(row):
                return False
        return True

    def problems(self, row: JsonObject) -> Iterator[str]:
        """Yield why `row` fails, with JSON pointers."""
        from jsonschema_rs import ValidationErrorKind

        for door, validator in self._validators:
            for error in validator.iter_errors(row):
                pointer = "".join(f"/{part}" for part in error.instance_path)
                problem = error.message
                if isinstance(error.kind, ValidationErrorKind.AdditionalProperties):
                    parameters = door.schema.get("properties", {}).get(CREATE_PARAMS)
                    if pointer == f"/{CREATE_PARAMS}" and isinstance(parameters, Mapping):
                        (first, *_) = error.kind.unexpected
                        problem += did_you_mean(first, parameters["properties"])
                short = problem if len(problem) < LONGEST else f"{problem[:LONGEST]} ..."
                yield f"{pointer or '/'}: {short} (required by {door.server}{door.path})"


def _takes_anything(schema: JsonObject) -> bool:
    """Whether the schema accepts every object: it requires no field and restricts none."""
    constraints = {
        key: constraint for key, constraint in schema.items() if key not in _WITHOUT_EFFECT
    }
    properties = constraints.pop("properties", {})
    if schema.get("required"):
        return False
    return constraints.items() <= _ANYTHING.items() and all(
        field_schema is True for field_schema in properties.values()
    )

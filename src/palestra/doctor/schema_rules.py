"""Check a tool's parameters without a compiler: rules over the nodes of a JSON Schema.

A *node* is a place where JSON Schema expects a schema. Values in `enum`, `const`, `default` or
`examples` are data, even when they look like schemas. Pointers are JSON pointers from the root of
the schema; `""` is the root.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from palestra.causes import Severity
from palestra.schema import JsonObject

_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords that hold a mapping of names to schemas."""
_LISTED: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
"""Keywords that may hold a list of schemas."""
_SINGLE: Final = (
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_CLOSING: Final = frozenset({"additionalProperties", "unevaluatedProperties"})
_FORMATS: Final = frozenset(
    {
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "json-pointer",
        "relative-json-pointer",
        "time",
        "uri",
        "uri-reference",
        "uri-template",
        "uuid",
    }
)
"""Formats that vLLM's default compiler supports. Its other compilers support fewer."""
_UNSUPPORTED: Final = frozenset(
    {
        "$dynamicRef",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxContains",
        "minContains",
        "multipleOf",
        "not",
        "patternProperties",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
"""Keywords that at least one of the compilers rejects, or accepts without enforcing them."""

_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_HOLD: Final = (
    ("properties", dict, "an object of schemas by name"),
    ("required", list, "a list of names"),
    ("enum", list, "a list of values"),
)

NOT_A_SCHEMA: Final = "data.tool-not-a-schema"
TOP_TYPE: Final = "data.tool-top-type"
BOOLEAN: Final = "data.tool-boolean-schema"
FORMAT: Final = "data.tool-format"
KEYWORD: Final = "data.tool-keyword"
REF: Final = "data.tool-ref"
REF_CYCLE: Final = "data.tool-ref-cycle"


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """One rule that a schema breaks, and the place in the schema."""

    cause: str
    pointer: str
    message: str
    severity: Severity = Severity.ERROR


def broken_rules(schema: JsonObject, *, strict: bool = False) -> Iterator[BrokenRule]:
    """Yield every rule that the parameters of a tool break.

    `strict`: whether the tool is strict. `additionalProperties: false`, which OpenAI's strict mode
    requires of every object, breaks no rule then.
    """
    if schema.get("type") != "object":
        yield BrokenRule(
            TOP_TYPE, "", f'the top of the schema says {_type_of(schema)} instead of type "object"'
        )
    nodes = dict(nodes_of(schema))
    wrong = [broken for pointer, node in nodes.items() for broken in _no_schema(pointer, node)]
    yield from wrong or _meta(schema)
    for pointer, node in nodes.items():
        if isinstance(node, bool):
            parent, _, keyword = pointer.rpartition("/")
            # Else it is a property of this name.
            closes = keyword in _CLOSING and parent in nodes
            if not (strict and closes and node is False):
                yield _boolean(pointer, value=node, closes=closes)
        elif isinstance(node, Mapping):
            yield from _of_node(pointer, node)
    yield from _references(schema, nodes)


def _type_of(schema: JsonObject) -> str:
    return f"type {schema['type']!r}" if "type" in schema else "no type"


def nodes_of(node: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the pointer and the value of each place where a schema is expected, the root first."""
    yield pointer, node
    if not isinstance(node, Mapping):
        return
    for keyword in _NAMED:
        subschema = node.get(keyword)
        if isinstance(subschema, Mapping):
            for name, inner in subschema.items():
                yield from nodes_of(inner, f"{pointer}/{keyword}/{escaped(name)}")
    for keyword in _LISTED:
        subschema = node.get(keyword)
        if isinstance(subschema, list):
            for index, inner in enumerate(subschema):
                yield from nodes_of(inner, f"{pointer}/{keyword}/{index}")
    for keyword in _SINGLE:
        if keyword in node and not (keyword == "items" and isinstance(node[keyword], list)):
            yield from nodes_of(node[keyword], f"{pointer}/{keyword}")


def escaped(name: object) -> str:
    """Return a name as one step of a JSON pointer."""
    return str(name).replace("~", "~0").replace("/", "~1")


def _no_schema(pointer: str, node: Any) -> Iterator[BrokenRule]:
    """Yield the reasons why a node is not a schema, in plain words."""
    if isinstance(node, bool):
        return
    if not isinstance(node, Mapping):
        message = f"here should be a schema, and there is {_kind(node)}: {node!r}"
        yield BrokenRule(NOT_A_SCHEMA, pointer, message)
        return
    types = node.get("type", [])
    for type_name in types if isinstance(types, list) else [types]:
        if type_name not in _TYPES:
            message = f"{type_name!r} is not a type; the types are {', '.join(_TYPES)}"
            yield BrokenRule(NOT_A_SCHEMA, f"{pointer}/type", message)
    for keyword, kind, expected in _HOLD:
        if keyword in node and not isinstance(node[keyword], kind):
            message = f"{keyword} should be {expected}, and is {_kind(node[keyword])}"
            yield BrokenRule(NOT_A_SCHEMA, f"{pointer}/{keyword}", message)


def _kind(value: Any) -> str:
    kinds = {str: "text", list: "a list", dict: "an object", bool: "a boolean"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _meta(schema: JsonObject) -> Iterator[BrokenRule]:
    """Yield the first violation of the JSON Schema specification, including an invalid pattern."""
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(dict(schema))
    except jsonschema_rs.ValidationError as error:
        pointer = "".join(f"/{escaped(step)}" for step in error.instance_path)
        yield BrokenRule(NOT_A_SCHEMA, pointer, f"not JSON Schema: {error.message}")
    except (ValueError, jsonschema_rs.ReferencingError):
        return  # its `$schema` or a reference cannot be read: told by the rule of references


def _boolean(pointer: str, *, value: bool, closes: bool) -> BrokenRule:
    """`closes`: whether the node says if an object may have other properties."""
    value_text = str(value).lower()
    return BrokenRule(
        BOOLEAN,
        pointer,
        f"a schema that is only `{value_text}`, which older compilers and tool parsers refuse",
        # Every compiler here takes it.
        Severity.NOTE if closes else Severity.WARNING,
    )


def _of_node(pointer: str, node: JsonObject) -> Iterator[BrokenRule]:
    warning = partial(BrokenRule, severity=Severity.WARNING)
    if isinstance(format_name := node.get("format"), str):
        remark = "" if format_name in _FORMATS else ", which vLLM's compilers do not know"
        yield warning(
            FORMAT,
            f"{pointer}/format",
            f"format {format_name!r}{remark}: it may be refused or ignored",
        )
        if "minLength" in node or "maxLength" in node:
            yield warning(KEYWORD, f"{pointer}/format", "format and a length: only one is enforced")
    for keyword in sorted(_UNSUPPORTED & node.keys()):
        yield warning(
            KEYWORD,
            f"{pointer}/{escaped(keyword)}",
            f"keyword {keyword!r} is refused by some of vLLM's compilers, and not enforced by others",
        )


def _references(schema: JsonObject, nodes: JsonObject) -> Iterator[BrokenRule]:
    """Yield the references that lead nowhere, and those that lead back to themselves."""
    leads: dict[str, str] = {}
    for pointer, node in nodes.items():
        reference = node.get("$ref") if isinstance(node, Mapping) else None
        if reference is None:
            continue
        ref_pointer = f"{pointer}/$ref"
        if not isinstance(reference, str) or not reference.startswith("#"):
            yield BrokenRule(
                REF, ref_pointer, f"{reference!r} is not a reference within this schema"
            )
        elif not _exists(schema, reference[1:]):
            yield BrokenRule(REF, ref_pointer, f"{reference!r} leads to nothing in this schema")
        else:
            leads[pointer] = reference[1:]
    for pointer in leads:
        if (broken := _cycle(pointer, leads, nodes)) is not None:
            yield broken


def _exists(schema: Any, pointer: str) -> bool:
    node = schema
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        else:
            return False
    return pointer == "" or pointer.startswith("/")


def _cycle(start: str, leads: Mapping[str, str], nodes: JsonObject) -> BrokenRule | None:
    ref_pointer = f"{start}/$ref"
    if start in _reached(start, lambda at: [leads[at]] if at in leads else []):
        return BrokenRule(
            REF_CYCLE, ref_pointer, "this reference leads back to itself: it describes nothing"
        )

    def inside(at: str) -> list[str]:
        return [leads[p] for p in leads if p == at or p.startswith(at + "/")]

    holders = [at for at in nodes if start == at or start.startswith(at + "/")]
    if leads[start] in holders or set(holders) & set(_reached(leads[start], inside)):
        return BrokenRule(
            REF_CYCLE,
            ref_pointer,
            "a recursive schema: outlines cuts it off at a depth, and older compilers refuse it",
            Severity.WARNING,
        )
    return None


def _reached(start: str, following: Callable[[str], list[str]]) -> list[str]:
    """Return every place reachable from `start`; `start` itself only when a path leads back to it."""
    reached: list[str] = []
    ahead = list(following(start))
    while ahead:
        current = ahead.pop()
        if current not in reached:
            reached.append(current)
            ahead += following(current)
    return reached

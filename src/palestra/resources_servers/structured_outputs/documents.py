"""Parse the text of an answer into a value, in one of five notations.

The whole text must be the document: prose or a code fence around it is an error. XML and CSV do not
distinguish numbers from text, or lists from single values; the schema decides there. Every parser
rejects a text that expands (entities, aliases of aliases) or is nested too deeply.
"""

import csv
import io
import json
import tomllib
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import orjson
from pydantic import JsonValue

from palestra.resources_servers.structured_outputs.shapes import (
    MOST_LEVELS,
    NoDocument,
    Shape,
    scalar_reader,
)
from palestra.resources_servers.structured_outputs.xml_documents import read_xml
from palestra.resources_servers.structured_outputs.yaml_documents import read_yaml

Notation = Literal["json", "yaml", "xml", "toml", "csv"]

MOST_NODES: Final = 1_000_000


def read_document(text: str, notation: Notation, shape: Shape) -> list[JsonValue]:
    """Return the possible values of a text, the likeliest first; only XML can have two.

    Raises NoDocument: the text is not valid in this notation. The TOML parser takes quadratic time
    for some texts.
    """
    if not text.strip():
        raise NoDocument("the answer is empty")
    if notation == "json":
        values = [read_json(text)]
    elif notation == "yaml":
        values = [read_yaml(text)]
    elif notation == "xml":
        values = list(read_xml(text, shape))
    elif notation == "toml":
        values = [_read_toml(text)]
    else:
        values = [_read_csv(text, shape)]
    for value in values:
        check_size(value)
    return values


def read_argument(arguments: str, key: str | None) -> JsonValue:
    """Return the arguments of a call as a value; with `key`, the value of the only argument `key`.

    Raises NoDocument: not JSON, or other arguments than `key` alone.
    """
    value = read_json(arguments)
    check_size(value)
    if key is None:
        return value
    if not isinstance(value, dict) or value.keys() != {key}:
        raise NoDocument(f"the arguments must have the key {key!r} and no other")
    return value[key]


def read_json(text: str) -> JsonValue:
    """Parse strict JSON. Raises NoDocument: the text is not JSON."""
    try:
        value: JsonValue = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
        raise NoDocument(f"not JSON: {error}") from None
    return value


def check_size(value: JsonValue) -> None:
    """Raise NoDocument for a value that is nested too deeply, or too large after aliases expand."""
    level = [value]
    nodes = levels = 0
    while level:
        levels += 1
        below: list[JsonValue] = []
        for part in level:
            if isinstance(part, list | dict):
                nodes += len(part)
                if levels > MOST_LEVELS or nodes > MOST_NODES:
                    raise NoDocument(
                        f"nested more than {MOST_LEVELS} levels deep, or more than {MOST_NODES} values"
                    )
                below.extend(part if isinstance(part, list) else part.values())
        level = below


def _read_toml(text: str) -> JsonValue:
    """Parse TOML; dates and times become text. Raises NoDocument: the text is not TOML."""
    try:
        text_json = json.dumps(tomllib.loads(text), default=_isoformat, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise NoDocument(f"not TOML: {error}") from None
    value: JsonValue = json.loads(text_json)
    return value


def _isoformat(moment: Any) -> str:
    return str(moment.isoformat())


def _read_csv(text: str, shape: Shape) -> JsonValue:
    """Parse CSV with a header line into a list of records, or one record if the schema has no list."""
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
    except csv.Error as error:
        raise NoDocument(f"not CSV: {error}") from None
    if not lines:
        raise NoDocument("not CSV: there is no header")
    header, records = lines[0], lines[1:]
    if len(set(header)) < len(header):
        raise NoDocument("not CSV: two columns have one name")
    for number, record in enumerate(records, start=1):
        if len(record) != len(header):
            raise NoDocument(f"record {number} has {len(record)} cells below {len(header)} names")
    if shape.wants("array"):
        read_record = _record_reader(header, shape.item(0))
        return [read_record(record) for record in records]
    if len(records) != 1:
        raise NoDocument(f"{len(records)} records, where the schema wants one")
    return _record_reader(header, shape)(records[0])


def _record_reader(header: Sequence[str], shape: Shape) -> Callable[[Sequence[str]], JsonValue]:
    """Return a function that turns the cells of a record into an object.

    The schema is read only once per column.
    """
    required = shape.required()
    columns = []
    for name in header:
        field_shape = shape.property(name)
        may_lack = name not in required and not field_shape.wants("null", "string")
        columns.append((name, may_lack, _cell_reader(field_shape)))

    def record(cells: Sequence[str]) -> JsonValue:
        return {
            name: read_cell(cell)
            for (name, may_lack, read_cell), cell in zip(columns, cells, strict=True)
            if cell or not may_lack
        }

    return record


def _cell_reader(shape: Shape) -> Callable[[str], JsonValue]:
    read_scalar = scalar_reader(shape)
    if not shape.wants("array", "object"):
        return read_scalar

    def cell(text: str) -> JsonValue:
        try:
            return read_json(text)
        except NoDocument:
            return read_scalar(text)

    return cell

"""From the text of an answer to the value that it writes down, in one of five notations.

The whole text must be the document: prose around it, and a fence, are none of its notation.
What XML and CSV leave open (are there numbers, are there lists?) is read as the schema would have
it. Every reader refuses what expands (entities, aliases of aliases) and what is nested too deep.
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
    """The values that a text may stand for, the likeliest first: only XML has two.

    Raises NoDocument for a text that is none of its notation. Some texts take TOML's reader a
    time that grows with their square.
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
    """The arguments of a call, or with `key` what the only one holds, which has that name.

    Raises NoDocument.
    """
    value = read_json(arguments)
    check_size(value)
    if key is None:
        return value
    if not isinstance(value, dict) or value.keys() != {key}:
        raise NoDocument(f"the arguments are not {key!r} alone")
    return value[key]


def read_json(text: str) -> JsonValue:
    """Strict JSON. Raises NoDocument."""
    try:
        value: JsonValue = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
        raise NoDocument(f"not JSON: {error}") from None
    return value


def check_size(value: JsonValue) -> None:
    """Raises NoDocument for a value that is nested too deep, or grows too big by its aliases."""
    level = [value]
    nodes = levels = 0
    while level:
        levels += 1
        below: list[JsonValue] = []
        for each in level:
            if isinstance(each, list | dict):
                nodes += len(each)
                if levels > MOST_LEVELS or nodes > MOST_NODES:
                    raise NoDocument(f"more than {MOST_LEVELS} levels or {MOST_NODES} values")
                below.extend(each if isinstance(each, list) else each.values())
        level = below


def _read_toml(text: str) -> JsonValue:
    """The value of a document, dates and times as text."""
    try:
        told = json.dumps(tomllib.loads(text), default=_isoformat, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise NoDocument(f"not TOML: {error}") from None
    value: JsonValue = json.loads(told)
    return value


def _isoformat(moment: Any) -> str:
    return str(moment.isoformat())


def _read_csv(text: str, shape: Shape) -> JsonValue:
    """The records below a header line; of a schema that wants no list, the one record."""
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
        read = _record_reader(header, shape.item(0))
        return [read(record) for record in records]
    if len(records) != 1:
        raise NoDocument(f"{len(records)} records, where the schema wants one")
    return _record_reader(header, shape)(records[0])


def _record_reader(header: Sequence[str], shape: Shape) -> Callable[[Sequence[str]], JsonValue]:
    """What makes an object of the cells of a record. Looks at the schema once for each column."""
    required = shape.required()
    columns = []
    for name in header:
        wanted = shape.property(name)
        may_lack = name not in required and not wanted.wants("null", "string")
        columns.append((name, may_lack, _cell_reader(wanted)))

    def record(cells: Sequence[str]) -> JsonValue:
        return {
            name: read(cell)
            for (name, may_lack, read), cell in zip(columns, cells, strict=True)
            if cell or not may_lack
        }

    return record


def _cell_reader(shape: Shape) -> Callable[[str], JsonValue]:
    read = scalar_reader(shape)
    if not shape.wants("array", "object"):
        return read

    def cell(text: str) -> JsonValue:
        try:
            return read_json(text)
        except NoDocument:
            return read(text)

    return cell

"""From the text of an answer to the value that it writes down, in one of five notations.

The whole text must be the document: prose around it, and a fence, are none of its notation.
What XML and CSV leave open (are there numbers, are there lists?) is read as the schema would have
it. Every reader refuses what expands (entities, aliases of aliases) and what is nested too deep.
"""

import csv
import io
from collections.abc import Sequence
from typing import Final, Literal

import orjson
from pydantic import JsonValue

from palestra.resources_servers.structured_outputs.no_document import MOST_LEVELS, NoDocument
from palestra.resources_servers.structured_outputs.shapes import Shape, scalar
from palestra.resources_servers.structured_outputs.xml_documents import read_xml
from palestra.resources_servers.structured_outputs.yaml_documents import read_yaml

Notation = Literal["json", "yaml", "xml", "toml", "csv"]

MOST_NODES: Final = 1_000_000


def read_document(text: str, notation: Notation, shape: Shape) -> list[JsonValue]:
    """The values that a text may stand for, the likeliest first: only XML has two.

    Raises NoDocument for a text that is none of its notation. TOML has a reader of its own, in
    `limited.py`.
    """
    if not text.strip():
        raise NoDocument("the answer is empty")
    if notation == "json":
        values = [read_json(text)]
    elif notation == "yaml":
        values = [read_yaml(text)]
    elif notation == "xml":
        values = list(read_xml(text, shape))
    else:
        values = [_read_csv(text, shape)]
    for value in values:
        check_size(value)
    return values


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
        return [_record(header, record, shape.item()) for record in records]
    if len(records) != 1:
        raise NoDocument(f"{len(records)} records, where the schema wants one")
    return _record(header, records[0], shape)


def _record(header: Sequence[str], cells: Sequence[str], shape: Shape) -> JsonValue:
    values: dict[str, JsonValue] = {}
    for name, cell in zip(header, cells, strict=True):
        wanted = shape.property(name)
        if cell == "" and not wanted.wants("null", "string") and name not in shape.required():
            continue
        values[name] = _cell(cell, wanted)
    return values


def _cell(cell: str, shape: Shape) -> JsonValue:
    if shape.wants("array", "object"):
        try:
            return read_json(cell)
        except NoDocument:
            pass
    return scalar(cell, shape)

"""The result row that an agent returned, unchanged."""

from typing import Self, final

import orjson
from pydantic import BaseModel

from palestra.schema import JsonDict, encode_json, fields_of


@final
class RawRow:
    """The result row as the agent returned it, by reference. It is encoded only when needed.

    Pickling it or writing it to a file turns it into JSON.
    """

    __slots__ = ("_given", "_line")

    def __init__(self, source: BaseModel | JsonDict | bytes) -> None:
        self._given: BaseModel | JsonDict | None = None
        self._line: bytes | None = None
        if isinstance(source, bytes):
            self._line = source
        else:
            self._given = source

    @property
    def line(self) -> bytes:
        """The row as one line of JSON."""
        if self._line is None:
            source = self._given
            fields = fields_of(source) if isinstance(source, BaseModel) else source
            self._line = encode_json(fields)
        return self._line

    def plain(self) -> JsonDict:
        """Return the row as plain values, a new copy on each call."""
        fields: JsonDict = orjson.loads(self.line)
        return fields

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self.line,)

    def __eq__(self, another: object) -> bool:
        return isinstance(another, RawRow) and self.line == another.line

    def __hash__(self) -> int:
        return hash(self.line)

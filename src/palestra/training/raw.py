"""The result row that an agent returned, unchanged."""

from typing import Any, Self, final

import msgspec
import orjson
from pydantic import BaseModel

from palestra.schema import JsonDict, encode_json, fields_of


@final
class RawRow:
    """The result row as the agent returned it, by reference. It is encoded only when needed.

    Pickling it or writing it to a file turns it into JSON.
    """

    __slots__ = ("_given", "_line", "_packed")

    def __init__(self, source: BaseModel | JsonDict | bytes) -> None:
        self._given: BaseModel | JsonDict | None = None
        self._line: bytes | None = None
        self._packed: bytes | None = None
        if isinstance(source, bytes):
            self._line = source
        else:
            self._given = source

    @classmethod
    def of_packed(cls, packed: bytes) -> Self:
        """Return the row whose `packable` was packed as MessagePack."""
        row = cls({})
        row._packed = packed
        return row

    @property
    def packable(self) -> Any:
        """The row's fields for an encoder; or its line, when it is encoded already."""
        if self._line is not None:
            return self._line
        if self._packed is not None:
            return msgspec.Raw(self._packed)
        return fields_of(self._given) if isinstance(self._given, BaseModel) else self._given

    @property
    def line(self) -> bytes:
        """The row as one line of JSON."""
        if self._line is None:
            row = self.packable if self._packed is None else msgspec.msgpack.decode(self._packed)
            self._line = row if isinstance(row, bytes) else encode_json(row)
            self._given = self._packed = None
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

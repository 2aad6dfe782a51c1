"""The row that an agent answered, kept as it came."""

from typing import Self, final

import orjson
from pydantic import BaseModel

from palestra.schema import JsonDict, encode_json, fields_of


@final
class RawRow:
    """The result row as the agent answered it, by reference: encoded only when somebody asks.

    Crossing to another process (pickle) or into a file makes JSON of it.
    """

    __slots__ = ("_given", "_line")

    def __init__(self, given: BaseModel | JsonDict | bytes) -> None:
        self._given: BaseModel | JsonDict | None = None
        self._line: bytes | None = None
        if isinstance(given, bytes):
            self._line = given
        else:
            self._given = given

    @property
    def line(self) -> bytes:
        """As one line of JSON."""
        if self._line is None:
            given = self._given
            fields = fields_of(given) if isinstance(given, BaseModel) else given
            self._line = encode_json(fields)
        return self._line

    def plain(self) -> JsonDict:
        """As plain values, made anew for whoever asks."""
        fields: JsonDict = orjson.loads(self.line)
        return fields

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self.line,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawRow) and self.line == other.line

    def __hash__(self) -> int:
        return hash(self.line)

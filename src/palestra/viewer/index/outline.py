"""Splits the bytes of a row into its items and texts, without decoding the whole row.

A row of 100 MB costs one pass over its bytes. Texts are returned in ranges, so a text of 100 MB
never is in memory as a string.
"""

from dataclasses import dataclass

PAGE_ITEMS = 500
RANGE_BYTES = 1 << 16
HEAD_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class TextPart:
    """One text of an item. `kind`: `text`, `reasoning`, `arguments`, `output`, `image` or `json`."""

    kind: str
    size: int
    """The length in the file, in bytes; escaped characters count as they are written."""
    head: str
    """The first 200 characters."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a conversation."""

    number: int
    """The position in the conversation of the row, from 0; prompt and output are counted together."""
    section: str
    """`prompt` or `output`."""
    kind: str
    """`message`, `reasoning`, `function_call`, `function_call_output`, or the item's own type."""
    role: str
    name: str
    """The name of the called tool."""
    call_id: str
    size: int
    """The length of the item in the file, in bytes."""
    texts: tuple[TextPart, ...]
    fields: tuple[str, ...]
    """The names of the item's fields, such as `generation_log_probs`."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A page of the items of a row."""

    total: int
    items: tuple[Item, ...]
    fields: dict[str, int]
    """The row's own fields, and their lengths in bytes."""


@dataclass(frozen=True, slots=True)
class TextRange:
    """A part of a text. `next`: the `start` of the following part; None at the end."""

    text: str
    start: int
    next: int | None
    size: int


def outline(row: bytes, *, start: int = 0, count: int = PAGE_ITEMS) -> Outline:
    """Return the items `start` to `start + count` of a row. Prompt items come before output items.

    Raises InputDataError: the row is not a JSON object.
    """
    raise NotImplementedError


def read_item(row: bytes, number: int) -> bytes:
    """Return the bytes of one item, as they are in the file. Raises InputDataError: there is no such
    item.
    """
    raise NotImplementedError


def text_range(
    row: bytes, number: int, part: int = 0, *, start: int = 0, length: int = RANGE_BYTES
) -> TextRange:
    """Return the text of a part of an item, from byte `start` of its form in the file.

    `length`: bytes of that form; ends move so that no character and no escape is cut. Raises
    InputDataError: there is no such part.
    """
    raise NotImplementedError

"""Formats text, numbers, HTML and SVG for the report. Every string is escaped unless this module
built it.
"""

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

UNIT = "\N{NO-BREAK SPACE}%"
ABSENT = "\N{EN DASH}"
"""Stands for a value that there is none of, as on the viewer's pages."""


def percent(share: float) -> str:
    """Format a share (0 to 1) as a percentage with one decimal. Only exact shares appear as 0 or
    100 %; others close to them as `< 0.1 %` or `> 99.9 %`.
    """
    if 0 < share < 0.001:
        return f"< 0.1{UNIT}"
    if 0.999 < share < 1:
        return f"> 99.9{UNIT}"
    return f"{100 * share:.1f}{UNIT}"


def amount(count: int, noun: str) -> str:
    """Format a count with its noun: `1 task`, `20,000 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number(value: float) -> str:
    """Format a value with three significant digits, or as a whole number with thousands separators
    from 100 on.
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb"
    r"\ufffe\uffff\U000e0000-\U000e0fff]"
)
"""Characters that are not visible. Excludes the zero-width joiners U+200C and U+200D, which scripts
and emoji need."""

_CONTROL_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, "\u2421"


def visible(text: str) -> str:
    """Return the text with every hidden character replaced by a visible code; line breaks and tabs
    stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_name, text.replace("\r\n", "\n"))


def visible_line(text: str, limit: int) -> str:
    """Return the text on one line, cut to `limit` characters, then with hidden characters made
    visible.
    """
    line = " ".join(text[: 4 * limit].split())
    return visible(line if len(line) <= limit else line[: limit - 1] + "…")


def _name(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return _DELETE_PICTURE
    return f"⟨U+{code:04X}⟩"


_VOID = frozenset({"br", "input", "link", "meta"})
_UNSAFE_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Markup(str):
    """A string that is already HTML. All other strings are escaped when they are inserted."""

    __slots__ = ()


Child = str | int | None


def tag(name: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """Return one HTML element. In attribute names, a trailing `_` is dropped and other `_` become
    `-`; attributes with None are left out.
    """
    spelled = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{spelled}>")
    return Markup(f"<{name}{spelled}>{together(*children)}</{name}>")


def together(*children: Child) -> Markup:
    """Return the children joined as HTML; None is skipped."""
    return Markup("".join(_escaped(child) for child in children if child is not None))


def html_table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = ""
) -> Markup:
    """Return a table for a notebook. Texts are escaped; None is an empty cell."""
    head = tag("tr", *(tag("th", text) for text in heads)) if any(heads) else None
    body = (
        tag("tr", *(tag("td", "" if cell is None else str(cell)) for cell in row)) for row in rows
    )
    return tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", head) if head else None,
        tag("tbody", *body),
    )


def data_block(name: str, value: Any) -> Markup:
    """Return `value` as a JSON block for the page's script. No value can close the block or open
    another tag.
    """
    return Markup(f'<script type="application/json" id="{escape(name)}">{_json(value)}</script>')


def _json(value: Any) -> str:
    """Return `value` as JSON that is safe in a script block. Its strings come from `visible`, so
    they have no lone surrogates.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE_IN_SCRIPT)


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_escaped(value)}"'


def _escaped(value: str | int) -> str:
    return value if isinstance(value, Markup) else escape(visible(str(value)))

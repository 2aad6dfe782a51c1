"""Builds HTML and SVG as strings in which nothing is markup unless it was built here."""

import json
from html import escape
from typing import Any

from palestra.analysis.report.visible import visible

_VOID = frozenset({"br", "input", "link", "meta"})
_UNSAFE_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Markup(str):
    """Text that is HTML already; any other string is escaped where it is used."""

    __slots__ = ()


Child = str | int | None


def tag(name: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """One element. In names of attributes `class_` is class and `_` is `-`; None leaves one out."""
    spelled = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{spelled}>")
    return Markup(f"<{name}{spelled}>{together(*children)}</{name}>")


def together(*children: Child) -> Markup:
    """Children one after the other; None is nothing."""
    return Markup("".join(_escaped(child) for child in children if child is not None))


def data_block(name: str, value: Any) -> Markup:
    """JSON for the page's script to read: no value can end the block or begin another tag."""
    return Markup(f'<script type="application/json" id="{escape(name)}">{_json(value)}</script>')


def _json(value: Any) -> str:
    """The strings in `value` have been through `visible`, so none holds a lone surrogate."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE_IN_SCRIPT)


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_escaped(value)}"'


def _escaped(value: str | int) -> str:
    return value if isinstance(value, Markup) else escape(visible(str(value)))

"""Parse YAML as a JSON value: one document, in the core schema of YAML 1.2.

So `yes` and `2024-01-31` are texts, but `true` and `~` are not. Values are built from the parser's
events, one after another. So depth and aliases cannot exhaust memory, and no tag creates an object.
"""

import re
from typing import Any, Final

import yaml
from pydantic import JsonValue

from palestra.resources_servers.structured_outputs.shapes import MOST_LEVELS, NoDocument

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset(
    _CORE + name for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_WORDS: Final[dict[str, JsonValue]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MOST_DIGITS: Final = 400


def read_yaml(text: str) -> JsonValue:
    """Return the value of the only document. Raises NoDocument: not exactly one YAML document."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        raise NoDocument(f"not YAML: {' '.join(str(error).split())[:200]}") from None
    except UnicodeEncodeError:
        raise NoDocument("the text has half of a surrogate pair") from None
    return builder.document()


class _Builder:
    """Builds a value from the events of the YAML parser."""

    def __init__(self) -> None:
        self._documents: list[JsonValue] = []
        self._open: list[list[JsonValue] | dict[str, JsonValue]] = []
        self._keys: list[str | None] = []
        """For each open collection the key that waits for its value."""
        self._anchors: dict[str, JsonValue] = {}
        self._anchors_of_open: list[str | None] = []

    def document(self) -> JsonValue:
        if len(self._documents) != 1:
            raise NoDocument(f"{len(self._documents)} YAML documents, where one is wanted")
        return self._documents[0]

    def take(self, event: Any) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!" and tag not in _TAGS:
            raise NoDocument(f"the tag {tag!r} is not accepted")
        match event:
            case yaml.ScalarEvent():
                self._take_scalar(event)
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise NoDocument(
                        f"the alias {event.anchor!r} refers to a node that is not complete"
                    )
                self._add(self._anchors[event.anchor])
            case yaml.MappingStartEvent():
                self._start({}, event.anchor)
            case yaml.SequenceStartEvent():
                self._start([], event.anchor)
            case yaml.CollectionEndEvent():
                self._end()

    def _take_scalar(self, event: Any) -> None:
        if self._awaits_key():
            self._keys[-1] = event.value
            return
        plain = event.implicit[0] or event.tag not in {None, "!", _CORE + "str"}
        self._finish(_resolved(event.value) if plain else event.value, event.anchor)

    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], dict) and self._keys[-1] is None

    def _start(self, value: list[JsonValue] | dict[str, JsonValue], anchor: str | None) -> None:
        if self._awaits_key():
            raise NoDocument("a key must be a scalar")
        if len(self._open) >= MOST_LEVELS:
            raise NoDocument(f"nested more than {MOST_LEVELS} levels deep")
        self._open.append(value)
        self._keys.append(None)
        self._anchors_of_open.append(anchor)

    def _end(self) -> None:
        value = self._open.pop()
        self._keys.pop()
        self._finish(value, self._anchors_of_open.pop())

    def _finish(self, value: JsonValue, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = value
        self._add(value)

    def _add(self, value: JsonValue) -> None:
        if not self._open:
            self._documents.append(value)
            return
        parent = self._open[-1]
        if isinstance(parent, list):
            parent.append(value)
            return
        key = self._keys[-1]
        if key is None:
            raise NoDocument("a key must be a scalar")
        if key in parent:
            raise NoDocument(f"not YAML: the key {key[:60]!r} occurs twice")
        parent[key] = value
        self._keys[-1] = None


def _resolved(text: str) -> JsonValue:
    """Convert a plain scalar into null, a boolean, a number or text."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _MOST_DIGITS:
        if _DECIMAL.fullmatch(text):
            return int(text)
        if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
            return int(text, 0)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text

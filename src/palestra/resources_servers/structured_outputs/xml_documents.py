"""Convert XML into a JSON value that fits a schema.

- The root element is the whole value, whatever its name. If the schema has a property of that name,
  the root can also be the only property of an object.
- Child elements and attributes are properties. A list is a repeated element
  (`<tag>a</tag><tag>b</tag>`), or one element around its items (`<tags><tag>a</tag>…</tags>`).
- Text becomes a number, a boolean or null where the schema allows it and the text can be parsed so.

A document type declaration is rejected. So no entities exist but the five of XML.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from pydantic import JsonValue

from palestra.resources_servers.structured_outputs.shapes import (
    MOST_LEVELS,
    NoDocument,
    Shape,
    scalar,
)

TEXT: Final = "#text"
"""The property for text next to child elements. No schema asks for it."""


@dataclass(slots=True)
class Element:
    """An XML element; names have no namespace prefix."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element"] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The element's own text, without the text of its children."""
        return "".join(self.texts).strip()


def read_xml(text: str, shape: Shape) -> Iterator[JsonValue]:
    """Yield the possible values of a document. Raises NoDocument: the text is not XML."""
    root = parse_xml(text)
    yield _value(root, shape)
    if shape.has_property(root.tag):
        yield {root.tag: _property([root], shape.property(root.tag))}


def parse_xml(text: str) -> Element:
    """Return the root element. Raises NoDocument: the text is not XML."""
    builder = _Builder()
    try:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = builder.doctype
        parser.StartElementHandler = builder.start
        parser.EndElementHandler = builder.end
        parser.CharacterDataHandler = builder.text
        parser.Parse(text.strip().encode(), True)  # expat takes it by place
    except (expat.ExpatError, UnicodeEncodeError, ValueError) as error:
        raise NoDocument(f"not XML: {error}") from None
    return builder.top.children[0]


class _Builder:
    def __init__(self) -> None:
        self.top = Element("")
        self._open = [self.top]

    def doctype(self, *_: object) -> None:
        raise NoDocument("a document type declaration is not accepted")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > MOST_LEVELS:
            raise NoDocument(f"nested more than {MOST_LEVELS} levels deep")
        unqualified = {_local(n): v for n, v in attributes.items() if n.split(":", 1)[0] != "xmlns"}
        element = Element(_local(name), unqualified)
        self._open[-1].children.append(element)
        self._open.append(element)

    def end(self, _name: str) -> None:
        self._open.pop()

    def text(self, data: str) -> None:
        self._open[-1].texts.append(data)


def _local(name: str) -> str:
    return name.rsplit(":", 1)[-1]


def _value(element: Element, shape: Shape) -> JsonValue:
    if shape.wants("array") and not shape.wants("object"):
        return _items(element.children, shape)
    if not element.children and not element.attributes:
        if not element.text and shape.wants("object") and not shape.wants("string", "null"):
            return {}
        return scalar(element.text, shape)
    value: dict[str, JsonValue] = {
        name: scalar(text, shape.property(name)) for name, text in element.attributes.items()
    }
    by_tag: dict[str, list[Element]] = {}
    for child in element.children:
        by_tag.setdefault(child.tag, []).append(child)
    for tag, children in by_tag.items():
        value[tag] = _property(children, shape.property(tag))
    if element.text:
        value[TEXT] = element.text
    return value


def _property(elements: list[Element], shape: Shape) -> JsonValue:
    """Convert the elements of one name under the same parent into a value."""
    if not shape.wants("array"):
        values = [_value(element, shape) for element in elements]
        return values[0] if len(values) == 1 else values
    first = elements[0]
    if len(elements) == 1:
        if not first.children and not first.text and not first.attributes:
            return []
        if _is_around_items(first, shape.item(0)):
            return _items(first.children, shape)
    return _items(elements, shape)


def _items(elements: list[Element], shape: Shape) -> JsonValue:
    return [_value(element, shape.item(index)) for index, element in enumerate(elements)]


def _is_around_items(element: Element, item: Shape) -> bool:
    """Whether an element contains the items of a list, and is not itself the only item."""
    tags = {child.tag for child in element.children}
    return len(tags) == 1 and not any(map(item.has_property, tags))

"""Turn the response of a web server into text for the model. Runs in a worker process."""

import re
from html.parser import HTMLParser

_LEFT_OUT = frozenset({"script", "style", "noscript", "template", "svg", "nav", "footer", "head"})
_BLOCK_TAGS = "p div section article li tr br h1 h2 h3 h4 h5 h6 table"
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_BLANKS = re.compile(r"[ \t\r\f\v]+")
_LINES = re.compile(r"\s*\n\s*")


def page_text(body: bytes, kind: str) -> str:
    """Return the text of a page; `kind`: its content type.

    For a type that is not text, return a note that names the type.
    """
    text = body.decode("utf-8", "replace")
    if kind in {"text/html", "application/xhtml+xml"}:
        reader = _Reader()
        reader.feed(text)
        reader.close()
        text = "".join(reader.parts)
    elif not kind.startswith("text/") and kind != "application/json":
        return f"(a file of type {kind}, which cannot be read here)"
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()


class _Reader(HTMLParser):
    """An HTML parser that collects the visible text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._inside = 0

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        # A head need not be closed.
        self._inside = 0 if tag == "body" else self._inside + (tag in _LEFT_OUT)
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _LEFT_OUT:
            self._inside = max(0, self._inside - 1)

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.parts.append(data)

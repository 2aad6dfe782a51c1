"""Make texts from other sources (models, datasets, servers) safe to print on a terminal."""

import re

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, of which only tab and line break stay
    "\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line breaks and changes of direction
    "\ud800-\udfff]"  # halves of characters, which cannot be written
)


def visible(text: str) -> str:
    r"""Return `text` with control characters spelt out (`\x1b`), and without colour codes.

    Tabs and line breaks stay.
    """
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return _UNSAFE.sub(_spelt, text)


def one_line(text: str) -> str:
    """Return `text` like `visible`, with line breaks and tabs spelt out, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _spelt(match: "re.Match[str]") -> str:
    code = ord(match.group())
    # The short form only for what JSON never holds: shown JSON stays JSON.
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"

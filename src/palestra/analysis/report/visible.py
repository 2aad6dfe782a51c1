"""Makes text that nobody vetted safe to look at: every character shows as itself or as its code.

Transcripts contain whatever a model or a tool wrote. Characters that a browser would hide, obey or
reorder around (control characters, bidirectional overrides, zero-width and tag characters, lone
surrogates, odd line separators) are shown by name, so that what is read is what is there.
"""

import re

_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb"
    r"\ufffe\uffff\U000e0000-\U000e0fff]"
)
"""Not the zero-width joiners U+200C and U+200D: scripts and emoji are spelled with them."""

_CONTROL_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, "\u2421"


def visible(text: str) -> str:
    """The text with every hidden character spelled out; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_name, text.replace("\r\n", "\n"))


def visible_line(text: str, limit: int) -> str:
    """The text on one line, of at most `limit` characters before hidden ones are spelled out."""
    line = " ".join(text[: 4 * limit].split())
    return visible(line if len(line) <= limit else line[: limit - 1] + "…")


def _name(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return _DELETE_PICTURE
    return f"⟨U+{code:04X}⟩"

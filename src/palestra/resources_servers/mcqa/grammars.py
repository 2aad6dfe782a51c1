r"""Answer grammars: from a model's text to the option letter it chose, or None.

Pure functions of text, linear in its length, that never raise. Glossary:

- *options*: letter to text, letters in upper case; empty when the row lists none, and then any
  letter from A to Z may be chosen.
- *box*: LaTeX's `\boxed{…}`; see `boxes.py` for which one counts.
"""

import re
import unicodedata
from collections.abc import Mapping

from palestra.resources_servers.boxes import last_box

Options = Mapping[str, str]

LONGEST_ANSWER = 5_000
"""Characters of a candidate that are looked at; no letter and no option is longer."""

_ONE_CAPITAL = re.compile(r"[\W_]*([A-Z])[\W_]*", re.ASCII)
_ONE_LETTER = re.compile(r"(?:(?:option|choice|answer)\s+)?([A-Za-z])", re.IGNORECASE)
_LETTER_AND_TEXT = re.compile(r"(?:option\s+|choice\s+)?([A-Za-z])\s?[).:\]]\s*(.+)", re.DOTALL)
_OTHER_LETTER = re.compile(r"(?<![A-Za-z])[A-Z](?![A-Za-z])")
_ANSWER_COLON = re.compile(r"\banswer[\s*_]{0,4}(?:is[\s*_]{0,4})?[:\uff1a]", re.IGNORECASE)
_WRAPPER = re.compile(
    r"\\(?:boxed|fbox|mbox|text|textbf|textit|textrm|mathrm|mathbf|mathsf|mathit|rm|bf)"
    r"\s?\{(.*)\}",
    re.DOTALL,
)
_BLANK = re.compile(r"\s+")
_EDGES = " \t\r\n.,;:!?*_$`'\"()[]{}<>\\"


def strict_single_letter_boxed(text: str, options: Options) -> str | None:
    """The last box, when its only letter is one capital letter of the options."""
    box = last_box(text)
    match = _ONE_CAPITAL.fullmatch(box) if box is not None else None
    # ASCII's \W spans letters of other scripts: "\boxed{яB}" holds two letters.
    if match is None or sum(map(str.isalnum, match[0])) != 1:
        return None
    return _known(match[1], options)


def lenient_boxed(text: str, options: Options) -> str | None:
    """The last box, read as `choice` reads it."""
    box = last_box(text)
    return None if box is None else choice(box, options)


def lenient_answer_colon(text: str, options: Options) -> str | None:
    """What follows the last "Answer:", up to the end of that line, as `choice` reads it."""
    last = None
    for last in _ANSWER_COLON.finditer(text):  # noqa: B007  # the last match is what we want
        pass
    if last is None:
        return None
    rest = text[last.end() : last.end() + LONGEST_ANSWER].lstrip(" \t\r\n*_")
    line = rest.split("\n", 1)[0]
    box = last_box(line)
    return choice(line if box is None else box, options)


def choice(candidate: str, options: Options) -> str | None:
    """The option that a short text names: "B", "(b)", "**B**", "B) its text", or its text.

    A candidate that names a second letter ("B) or C") chooses nothing.
    """
    content = _unwrapped(unicodedata.normalize("NFKC", candidate[:LONGEST_ANSWER]))
    if match := _ONE_LETTER.fullmatch(content):
        return _known(match[1].upper(), options)
    wanted = _normal(content)
    same = [letter for letter, text in options.items() if _normal(text) == wanted]
    if len(same) == 1 and wanted:
        return same[0]
    if match := _LETTER_AND_TEXT.fullmatch(content):
        letter = match[1].upper()
        if _normal(match[2]) == _normal(options.get(letter, "")):
            return _known(letter, options)
        if not set(_OTHER_LETTER.findall(match[2])) - {letter}:
            return _known(letter, options)
    return None


def _known(letter: str, options: Options) -> str | None:
    return letter if not options or letter in options else None


def _unwrapped(text: str) -> str:
    """Without the emphasis, brackets and LaTeX commands around it."""
    for _ in range(8):
        bare = text.strip()
        if match := _WRAPPER.fullmatch(bare.strip(" \t\r\n$*_`.")):
            text = match[1]
            continue
        bare = bare.strip(_EDGES) if not _LETTER_AND_TEXT.fullmatch(bare) else bare
        if bare == text:
            return bare
        text = bare
    return text


def _normal(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return _BLANK.sub(" ", plain).strip(_EDGES)

r"""Answer grammars: from a model's text to the option letter it chose, or None.

Pure functions of text, linear in its length, that never raise. Glossary:

- *options*: letter to text, letters in upper case; empty when the row lists none, and then any
  letter from A to Z may be chosen.
- *box*: LaTeX's `\boxed{…}`; see `latex_text.py` for which one counts.
"""

import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from typing import Final

from palestra.resources_servers.latex_text import last_box, plain_text
from palestra.resources_servers.stopped import Call, Stopped, value_of
from palestra.sandbox import Workers

LIMIT_S: Final = 1.0
"""Of a core."""
LONGEST_PATTERN: Final = 1_000
LONGEST_TEXT: Final = 100_000
"""Characters searched, from the end: the answer is what a model writes last."""


async def search(workers: Workers, pattern: str, text: str, *, prompt: str) -> str | None:
    """`last_match` in a worker; None also when nothing is found in time.

    Raises RowError for a pattern that does not come to an end on the row's own prompt either.
    """
    function = f"{__name__}:{last_match.__name__}"
    searched, own = (Call(function, (pattern, each[-LONGEST_TEXT:])) for each in (text, prompt))
    field = "template_metadata.output_regex"
    try:
        found = await value_of(workers, searched, alone=own, field=field, limit_s=LIMIT_S)
    except Stopped:
        return None
    return None if found is None else str(found)


def last_match(pattern: str, text: str) -> str | None:
    """The first group (else the whole) of the last match, if there is any."""
    last = None
    with warnings.catch_warnings(action="ignore"):
        for last in re.finditer(pattern, text):  # noqa: B007  # the last match is what we want
            pass
    if last is None:
        return None
    found: str | None = last[1] if last.re.groups else last[0]
    # Half a surrogate pair cannot be sent back.
    return None if found is None else found.encode("utf-8", "replace").decode()


Options = Mapping[str, str]

LONGEST_ANSWER = 5_000
"""Characters of a candidate that are looked at; no letter and no option is longer."""

_NAMED = r"(?:(?:option|choice|answer)[\s:(\[]+)?[(\[]?"
_ONE_CAPITAL = re.compile(r"[\W_]*([A-Z])[\W_]*", re.ASCII)
_ONE_LETTER = re.compile(rf"{_NAMED}([A-Za-z])[)\]]?", re.IGNORECASE)
_LETTER_AND_TEXT = re.compile(rf"{_NAMED}([A-Za-z])\s?[).:\]]\s*(.+)", re.DOTALL | re.IGNORECASE)
_LETTER_BESIDE_TEXT = re.compile(
    rf"{_NAMED}([A-Za-z])(?:\s+-\s+|\s*[\u2013\u2014]\s*|\s+(?=\())(.+)", re.DOTALL | re.IGNORECASE
)
"""`B - Rome`, `B (Rome)`: so are sums and functions written, hence it must be the option's text."""
_MARKED_LETTER = re.compile(r"[\s*_`$]*(\(?[A-Za-z][).:]?)[*_`$]+(?=\W)")
"""`**B** - Rome`: the emphasis of a letter alone."""
_OTHER_LETTER = re.compile(r"(?<![A-Za-z])[A-Z](?![A-Za-z])")
_DENIAL = re.compile(
    r"\b(?:not|no|nor|never|neither|cannot|wrong|incorrect|false|untrue|invalid|impossible|"
    r"unlikely|rejected|eliminated|excluded|ruled out|\w+n['\u2019]t)\b"
)
_ANSWER_COLON = re.compile(r"\banswer[\s*_]{0,4}(?:is[\s*_]{0,4})?[:\uff1a]", re.IGNORECASE)
_BLANK = re.compile(r"\s+")
_EMPHASIS = " \t\r\n*_$`"
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

    A candidate that names a second letter ("B) or C"), goes on with another option's text or
    denies what it names ("B) is wrong") chooses nothing.
    """
    plain = plain_text(unicodedata.normalize("NFKC", candidate[:LONGEST_ANSWER]))
    if match := _MARKED_LETTER.match(plain):
        plain = match[1] + plain[match.end() :]
    content = _unwrapped(plain)
    match = _ONE_LETTER.fullmatch(content)
    if match and (letter := _known(match[1].upper(), options)):
        return letter
    same = _with_text(plain, options, _exact) or _with_text(content, options, _normal)
    if same:
        return same[0] if len(same) == 1 else None
    if match := _LETTER_AND_TEXT.fullmatch(content):
        fits = _goes_with(match[1].upper(), match[2], options)
    elif match := _LETTER_BESIDE_TEXT.fullmatch(content):
        fits = _is_said_in(_normal(options.get(match[1].upper(), "")), _normal(match[2]))
        fits = fits and _goes_with(match[1].upper(), match[2], options)
    else:
        return None
    return _known(match[1].upper(), options) if fits else None


def _with_text(said: str, options: Options, form: Callable[[str], str]) -> list[str]:
    """The options whose text it is."""
    wanted = form(said)
    return [letter for letter, text in options.items() if wanted and form(text) == wanted]


def _goes_with(letter: str, text: str, options: Options) -> bool:
    """Whether what follows a letter leaves it the one that is chosen."""
    if (exactly := _with_text(text, options, _exact)) and letter not in exactly:
        return False
    texts = {at: _normal(other) for at, other in options.items()}
    said, own = _normal(text), texts.get(letter, "")
    if said == own:
        return True
    if said in texts.values() or set(_OTHER_LETTER.findall(text)) - {letter}:
        return False
    if _is_said_in(said, own):
        return True
    if _DENIAL.search(said):
        return False
    others = (other for at, other in texts.items() if at != letter)
    return _is_said_in(own, said) or not any(_is_said_in(other, said) for other in others)


def _is_said_in(part: str, whole: str) -> bool:
    """Whether some words, if they are any, stand in others."""
    return bool(part) and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", whole) is not None


def _known(letter: str, options: Options) -> str | None:
    return letter if not options or letter in options else None


def _unwrapped(text: str) -> str:
    """Without the emphasis and brackets around it."""
    for _ in range(8):
        bare = text.strip(_EMPHASIS)
        if not _LETTER_AND_TEXT.fullmatch(bare) and not _LETTER_BESIDE_TEXT.fullmatch(bare):
            bare = bare.strip(_EDGES)
        if bare == text:
            return bare
        text = bare
    return text


def _exact(text: str) -> str:
    """A text by which options that differ in letter case or in brackets alone are told apart."""
    return _BLANK.sub(" ", plain_text(unicodedata.normalize("NFKC", text))).strip(_EMPHASIS)


def _normal(text: str) -> str:
    plain = plain_text(unicodedata.normalize("NFKC", text)).casefold()
    return _BLANK.sub(" ", plain).strip(_EDGES)

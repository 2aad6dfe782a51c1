r"""Answer grammars: find in a model's text the letter of the option it chose, or None.

Pure functions that never raise and take linear time. Glossary:

- *options*: letter to text, letters in upper case. Empty when the row lists none; then any letter
  from A to Z may be chosen.
- *box*: LaTeX's `\boxed{…}`; `latex_text.py` defines which box counts.
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
"""The seconds for one search; waiting for a core does not count."""
LONGEST_PATTERN: Final = 1_000
LONGEST_TEXT: Final = 100_000
"""The number of characters searched at the end of a text, where a model writes its answer."""


async def search(workers: Workers, pattern: str, text: str, *, prompt: str) -> str | None:
    """Run `last_match` in a worker. None when nothing matches, or not within the time limit.

    Raises RowError: the pattern does not finish on the row's own prompt either.
    """
    function = f"{__name__}:{last_match.__name__}"
    searched, in_prompt = (
        Call(function, (pattern, searched_text[-LONGEST_TEXT:])) for searched_text in (text, prompt)
    )
    field = "template_metadata.output_regex"
    try:
        match = await value_of(workers, searched, row_call=in_prompt, field=field, limit_s=LIMIT_S)
    except Stopped:
        return None
    return None if match is None else str(match)


def last_match(pattern: str, text: str) -> str | None:
    """Return the first group (or else the whole) of the last match; None without a match."""
    last = None
    with warnings.catch_warnings(action="ignore"):
        for last in re.finditer(pattern, text):  # noqa: B007  # the last match is what we want
            pass
    if last is None:
        return None
    letter: str | None = last[1] if last.re.groups else last[0]
    # Half a surrogate pair cannot be sent back.
    return None if letter is None else letter.encode("utf-8", "replace").decode()


Options = Mapping[str, str]

LONGEST_ANSWER = 5_000
"""The number of characters of a candidate that are read; no letter and no option is longer."""

_NAMED = r"(?:(?:option|choice|answer)[\s:(\[]+)?[(\[]?"
_ONE_CAPITAL = re.compile(r"[\W_]*([A-Z])[\W_]*", re.ASCII)
_ONE_LETTER = re.compile(rf"{_NAMED}([A-Za-z])[)\]]?", re.IGNORECASE)
_LETTER_AND_TEXT = re.compile(rf"{_NAMED}([A-Za-z])\s?[).:\]]\s*(.+)", re.DOTALL | re.IGNORECASE)
_LETTER_BESIDE_TEXT = re.compile(
    rf"{_NAMED}([A-Za-z])(?:\s+-\s+|\s*[\u2013\u2014]\s*|\s+(?=\())(.+)", re.DOTALL | re.IGNORECASE
)
"""Matches `B - Rome` and `B (Rome)`. Sums and functions look the same, so the text must be the
option's."""
_MARKED_LETTER = re.compile(r"[\s*_`$]*(\(?[A-Za-z][).:]?)[*_`$]+(?=\W)")
"""Matches the letter in `**B** - Rome`, where only the letter is emphasized."""
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
    """Return the letter in the last box, if it is a capital letter of an option and the only
    letter.
    """
    box = last_box(text)
    match = _ONE_CAPITAL.fullmatch(box) if box is not None else None
    # ASCII's \W spans letters of other scripts: "\boxed{яB}" holds two letters.
    if match is None or sum(map(str.isalnum, match[0])) != 1:
        return None
    return _known_letter(match[1], options)


def lenient_boxed(text: str, options: Options) -> str | None:
    """Return the option in the last box, read by `choice`."""
    box = last_box(text)
    return None if box is None else choice(box, options)


def lenient_answer_colon(text: str, options: Options) -> str | None:
    """Return the option on the rest of the line after the last "Answer:", read by `choice`."""
    last = None
    for last in _ANSWER_COLON.finditer(text):  # noqa: B007  # the last match is what we want
        pass
    if last is None:
        return None
    remainder = text[last.end() : last.end() + LONGEST_ANSWER].lstrip(" \t\r\n*_")
    line = remainder.split("\n", 1)[0]
    box = last_box(line)
    return choice(line if box is None else box, options)


def choice(candidate: str, options: Options) -> str | None:
    """Return the option that a short text names: "B", "(b)", "**B**", "B) its text", or its text.

    None when the text names a second letter ("B) or C"), continues with the text of another option,
    or denies the option ("B) is wrong").
    """
    plain = plain_text(unicodedata.normalize("NFKC", candidate[:LONGEST_ANSWER]))
    if match := _MARKED_LETTER.match(plain):
        plain = match[1] + plain[match.end() :]
    content = _unwrapped(plain)
    match = _ONE_LETTER.fullmatch(content)
    if match and (letter := _known_letter(match[1].upper(), options)):
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
    return _known_letter(match[1].upper(), options) if fits else None


def _with_text(answer_text: str, options: Options, form: Callable[[str], str]) -> list[str]:
    """Return the letters of the options whose text equals `answer_text` after `form` is applied to
    both.
    """
    expected_text = form(answer_text)
    return [
        letter for letter, text in options.items() if expected_text and form(text) == expected_text
    ]


def _goes_with(letter: str, text: str, options: Options) -> bool:
    """Whether the text after a letter agrees with choosing that letter."""
    if (exactly := _with_text(text, options, _exact)) and letter not in exactly:
        return False
    texts = {at: _normal(option_text) for at, option_text in options.items()}
    answer_text, option_text = _normal(text), texts.get(letter, "")
    if answer_text == option_text:
        return True
    if answer_text in texts.values() or set(_OTHER_LETTER.findall(text)) - {letter}:
        return False
    if _is_said_in(answer_text, option_text):
        return True
    if _DENIAL.search(answer_text):
        return False
    others = (option_text for at, option_text in texts.items() if at != letter)
    return _is_said_in(option_text, answer_text) or not any(
        _is_said_in(option_text, answer_text) for option_text in others
    )


def _is_said_in(part: str, text: str) -> bool:
    """Whether `part` is not empty and occurs in `text` as whole words."""
    return bool(part) and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


def _known_letter(letter: str, options: Options) -> str | None:
    return letter if not options or letter in options else None


def _unwrapped(text: str) -> str:
    """Remove the emphasis and brackets around a text."""
    for _ in range(8):
        bare = text.strip(_EMPHASIS)
        if not _LETTER_AND_TEXT.fullmatch(bare) and not _LETTER_BESIDE_TEXT.fullmatch(bare):
            bare = bare.strip(_EDGES)
        if bare == text:
            return bare
        text = bare
    return text


def _exact(text: str) -> str:
    """Normalize a text, but keep letter case and brackets, in which two options may differ."""
    return _BLANK.sub(" ", plain_text(unicodedata.normalize("NFKC", text))).strip(_EMPHASIS)


def _normal(text: str) -> str:
    plain = plain_text(unicodedata.normalize("NFKC", text)).casefold()
    return _BLANK.sub(" ", plain).strip(_EDGES)

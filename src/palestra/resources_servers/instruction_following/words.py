"""Split English text into words: runs of word characters, or Penn Treebank tokens."""

import re
from typing import Final

from palestra.resources_servers.instruction_following.sentences import split_sentences

_REPEATS: Final = re.compile(r"[*+{]|\(\?")
_FORKS: Final = re.compile(r"[?|]")
_MOST_FORKS: Final = 4
"""The most `?` and `|` in a keyword that is used as a pattern. Each doubles the ways to match at
one place."""


def keyword_pattern(keyword: str, *, whole_words: bool = False) -> re.Pattern[str]:
    """Return a pattern that finds `keyword`, ignoring case; with `whole_words` only as a whole
    word.
    """
    edge = r"\b" if whole_words else ""
    if not _REPEATS.search(keyword) and len(_FORKS.findall(keyword)) <= _MOST_FORKS:
        try:
            return re.compile(f"{edge}{keyword}{edge}", re.IGNORECASE)
        except re.error:
            pass
    return re.compile(f"{edge}{re.escape(keyword)}{edge}", re.IGNORECASE)


def count_matches(pattern: re.Pattern[str], text: str) -> int:
    """Count the matches of `pattern` in `text`, without overlaps."""
    return sum(1 for _ in pattern.finditer(text))


_WORD: Final = re.compile(r"\w+")

_BETWEEN: Final = "\x1e"
"""Separates sentences; it counts as white space."""

# What the Treebank's tokenizer does, in order: each pattern and what replaces it.
_OPENING: Final = (
    (re.compile("([«“\u2018„]|`+)"), r" \1 "),
    (re.compile(r'(^|\x1e)"'), r"\1``"),
    (re.compile("``"), " `` "),
    (re.compile(r"([ (\[{<])(\"|'')"), r"\1 `` "),
    (re.compile(r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b"), r"\1 \2"),
)
_PUNCTUATION: Final = (
    (re.compile(r"([:,])(\D)"), r" \1 \2"),
    (re.compile(r"([:,])$"), r" \1 "),
    (re.compile(r"\.{2,}|[;@#$%&?!]"), r" \g<0> "),
    (re.compile(r"([^'])' "), r"\1 ' "),
    (re.compile(r"[*\]\[(){}<>]|--"), r" \g<0> "),
)
_CLOSING: Final = (
    (re.compile("[»”\u2019]"), r" \g<0> "),
    (re.compile(r"''|\""), " '' "),
    (re.compile(r"\s+"), " "),
    (re.compile(r"([^' ])('[sSmMdD]|') "), r"\1 \2 "),
    (re.compile(r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) "), r"\1 \2 "),
)
_CONTRACTIONS: Final = (
    (
        re.compile(
            r"(?i)\b(?:(can)(not)|(d)('ye)|(gim)(me)|(gon)(na)|(got)(ta)|(lem)(me)|(more)('n))\b"
            r"|\b(wan)(na)(?=\s)"
        ),
        lambda match: f" {' '.join(part for part in match.groups() if part)} ",
    ),
    (re.compile(r"(?i) ('t)(is|was)\b"), r" \1 \2 "),
)
_AFTER_LAST_PERIOD: Final = "])}>\"'»”\u2019 "


def count_words(text: str) -> int:
    """Count the runs of letters, digits and underscores."""
    return sum(1 for _ in _WORD.finditer(text))


def treebank_words(text: str) -> list[str]:
    """Return the tokens of a text: words, contractions split in two, and punctuation marks.

    All sentences are processed at once: a million sentences one by one would take a minute.
    """
    text = _BETWEEN.join(split_sentences(text.replace(_BETWEEN, " ")))
    for pattern, replacement in _OPENING:
        text = pattern.sub(replacement, text)
    text = _BETWEEN.join(map(_last_period_apart, text.split(_BETWEEN)))
    for pattern, replacement in _PUNCTUATION:
        text = pattern.sub(replacement, text)
    text = f" {text} "
    for pattern, replacement in _CLOSING:
        text = pattern.sub(replacement, text)
    for contraction, parts in _CONTRACTIONS:
        text = contraction.sub(parts, text)
    return text.split()


def _last_period_apart(sentence: str) -> str:
    """Put spaces around the sentence's last period; brackets and quotes may follow the period."""
    body = sentence.rstrip().rstrip(_AFTER_LAST_PERIOD)
    if not body.endswith(".") or len(body) < len("x.") or body[-2] == ".":
        return sentence
    return f"{body[:-1]} . {sentence[len(body) :]} "

"""Verdicts: which of the two labels a judge's reply gives as its last word, if it gives one.

A verdict is the whole last line of the reply, whatever emphasis or quotes are around it: a label,
or one of the sentences with a label that prompts of the field ask for.

    [[A=B]]
    Verdict: [[A=B]]
    [[A!=B]] they are not equivalent
    The AI assistants' answers are different: [[A!=B]]
    **After analyzing both queries, my final verdict is different [[A!=B]].**

What such a sentence says must be what its label says. Any other line is no verdict: neither
"not [[A=B]]", nor a label somewhere in an argument, which may be a quotation.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from palestra.schema import Response

EQUAL, NOT_EQUAL = "[[A=B]]", "[[A!=B]]"

_THINKING, _END_OF_THINKING = "<think>", "</think>"
_EDGES: Final = " \t\r*_.`\"'"
_EMPHASIS: Final = re.compile(r"[*_`]")
_CHOICE: Final = re.compile(r"[12][.)]\s+")
"""The number of a label in a prompt's list of them."""

_EQUAL_WORDS: Final = "(?:equivalent|equal|the same)"
_NOT_EQUAL_WORDS: Final = "(?:different|not equivalent|not equal|not the same)"
_ANSWERS: Final = "the (?:two |ai assistants['\u2019] )?(?:answers|queries|solutions)"
_BEFORE: Final = (
    "(?:after [^,.:;]{1,80}, )?(?:my |the )?(?:final )?verdict(?: is(?: WORDS)?:?|:)",
    f"{_ANSWERS} are (?:functionally |mathematically )?WORDS:",
)
_AFTER: Final = ("they are WORDS",)


@dataclass(frozen=True, slots=True)
class Labels:
    """What a judge may say, in these characters exactly."""

    equal: str = EQUAL
    not_equal: str = NOT_EQUAL

    def __iter__(self) -> Iterator[str]:
        return iter((self.equal, self.not_equal))

    def problem(self) -> str:
        """What keeps them from being told apart; empty when nothing does."""
        equal, not_equal = (label.strip(_EDGES) for label in self)
        if not equal or not not_equal:
            return "a label is empty"
        if equal in not_equal or not_equal in equal:
            return f"one of the labels {self.equal!r} and {self.not_equal!r} is part of the other"
        return ""


def read_verdict(response: Response, labels: Labels) -> str | None:
    """The label that the reply gives as its verdict; None when it gives none.

    What the judge thought before `</think>` is no part of its reply. A reply that was cut off, or
    whose thinking does not end, has no verdict.
    """
    if response.incomplete_details is not None:
        return None
    said = response.final_text.rpartition(_END_OF_THINKING)[2].strip()
    if _THINKING in said:
        return None
    above, _, line = said.rpartition("\n")
    line = line.strip(_EDGES)
    if not above:  # else it may be the list of both that is quoted
        line = _CHOICE.sub("", line, count=1)
    if _gives(line, labels.equal, _EQUAL_WORDS):
        return labels.equal
    return labels.not_equal if _gives(line, labels.not_equal, _NOT_EQUAL_WORDS) else None


def _gives(line: str, label: str, words: str) -> bool:
    """Whether a line gives this label: alone, or in a sentence that says the same in `words`."""
    before, found, after = map(_bare, line.partition(label.strip(_EDGES)))
    if not found or (before and after):
        return False
    forms, said = (_BEFORE, before) if before else (_AFTER, after)
    return not said or any(
        re.fullmatch(form.replace("WORDS", words), said, re.IGNORECASE) for form in forms
    )


def _bare(text: str) -> str:
    return " ".join(_EMPHASIS.sub("", text).split()).strip(_EDGES)

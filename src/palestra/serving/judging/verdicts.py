"""Verdicts: which of the allowed labels a judge's reply ends with, if it is any."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from palestra.schema import Response

EQUAL, NOT_EQUAL = "[[A=B]]", "[[A!=B]]"

_END_OF_THINKING = "</think>"


@dataclass(frozen=True, slots=True)
class Labels:
    """What a judge may say, in these characters exactly."""

    equal: str = EQUAL
    not_equal: str = NOT_EQUAL

    def __iter__(self) -> Iterator[str]:
        return iter((self.equal, self.not_equal))

    def problem(self) -> str:
        """What keeps them from being told apart; empty when nothing does."""
        if not self.equal.strip() or not self.not_equal.strip():
            return "a label is empty"
        if self.equal in self.not_equal or self.not_equal in self.equal:
            return f"one of the labels {self.equal!r} and {self.not_equal!r} is part of the other"
        return ""


def read_verdict(response: Response, labels: Iterable[str], *, quoted: Iterable[str]) -> str | None:
    """The label that the reply gives as its verdict; None when it gives none or several.

    It is the one in the reply's last line. A judge who adds a remark after it is understood,
    as long as the whole reply holds no other label, and unless a passage that the judge was
    shown holds one (`quoted`): what stands above may then be a quotation. A reply that was cut
    off has no verdict.
    """
    if response.incomplete_details is not None:
        return None
    text = response.final_text.rpartition(_END_OF_THINKING)[2].strip()
    allowed = tuple(labels)
    found = _labels_in(text.rpartition("\n")[2], allowed)
    if not found and not any(_labels_in(passage, allowed) for passage in quoted):
        found = _labels_in(text, allowed)
    return found[0] if len(found) == 1 else None


def _labels_in(text: str, labels: Iterable[str]) -> list[str]:
    return [label for label in labels if label in text]

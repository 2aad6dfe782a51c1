"""Finds a text in bytes, as it is or without case. Every character stands for itself: it is no
regular expression.

A text as it is needs only a plain search, which is the fastest. The case of ASCII letters is folded
by lowering the bytes, which is fast. Other letters need a pattern with all their forms, which is
slow; so parts without a hit are passed over by a plain search.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

Forms = Callable[[str], Sequence[bytes]]
"""Returns the ways in which a text may be written, always as many and in one order."""
SEARCHED_AT_ONCE: Final = 1 << 18


class ExactText:
    """A text to look for as it is. Search many bytes at once: each search has a fixed cost."""

    def __init__(self, text: str, forms: Forms) -> None:
        self._forms = tuple(dict.fromkeys(forms(text)))

    def starts(self, data: bytes | memoryview, ends: Sequence[int] = ()) -> Iterator[int]:
        """Yield where it begins. `ends`: where parts of `data` end, in order; in each part only the
        first occurrence of a form is yielded.
        """
        data = bytes(data)  # which copies a view only
        for form in self._forms:
            at = data.find(form)
            while at >= 0:
                yield at
                part = bisect_right(ends, at)
                at = data.find(form, ends[part] if part < len(ends) else at + 1)


class FoldedText:
    """A text to look for. `around`: bytes that must stand on both sides of it. `until`: a byte up to
    which what follows a hit is passed over; by default nothing is.
    """

    def __init__(self, text: str, forms: Forms, *, around: bytes = b"", until: bytes = b"") -> None:
        self._is_ascii = text.isascii()
        edge = re.escape(around)
        if self._is_ascii:
            body = re.escape(forms(text)[0].lower())
        else:
            body = b"".join(_any_form(character, forms) for character in text)
        following = b"[^" + re.escape(until) + b"]*" if until else b""
        flags = 0 if self._is_ascii else re.IGNORECASE
        self._pattern = re.compile(edge + body + b"(?=" + edge + b")" + following, flags)
        runs = re.findall(r"[\x20-\x7e]+", text)
        self._anchor = forms(max(runs, key=len))[0].lower() if runs else b""
        has_case = text.lower() != text.upper()
        self._literals = () if has_case else forms(text)
        self._overlap = len(around) + max(map(len, forms(text)), default=0) * 2

    def starts(self, data: bytes | memoryview) -> Iterator[int]:
        """Yield where it begins, with what stands around it."""
        for start in range(0, max(len(data), 1), SEARCHED_AT_ONCE):
            part = bytes(data[start : start + SEARCHED_AT_ONCE + self._overlap])
            folded = part.lower() if self._anchor or self._is_ascii else part
            if self._anchor and self._anchor not in folded:
                continue
            if not self._anchor and self._literals and not any(x in part for x in self._literals):
                continue
            for match in self._pattern.finditer(folded if self._is_ascii else part):
                if match.start() < SEARCHED_AT_ONCE:
                    yield start + match.start()


def _any_form(character: str, forms: Forms) -> bytes:
    cases = {character, character.lower(), character.upper(), character.casefold()}
    variants = {form for case in cases for form in forms(case)}
    return b"(?:" + b"|".join(sorted(map(re.escape, variants))) + b")"

"""`StringMatchServer`: does the model's answer equal the expected text?"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.latex_text import last_box, plain_text
from palestra.schema import JsonObject, Response, VerifyRequest, VerifyResponse, response_of
from palestra.server import ResourcesServerConfig

ExtractionMode = Literal["boxed", "final_answer", "last_line", "full"]

_MARKER: Final = re.compile(
    r"\b(?:final[ \t]+answer|answer)[ \t*_]{0,8}(?:is[ \t*_]{0,8})?[:\uff1a]", re.IGNORECASE
)
_EDGES: Final = " \t\r\n*_`$"
_QUOTES: Final = (('"', '"'), ("'", "'"), ("\u201c", "\u201d"), ("\u2018", "\u2019"))
_CLOSED: Final = re.compile(r"[*_`$}\"'\u201d\u2019]\.$")
"""Matches a period right after a closing mark. It ends the sentence and is not part of the answer.
"""
_MOST_WRAPPERS: Final = 8


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """The answer that a text gives."""

    written: str
    """The answer as written."""

    bare: str
    """The answer without wrappers like quotes or emphasis; equal to `written` when there are none.
    """

    takes_off: bool = True

    def says(self, expected: str, *, case_sensitive: bool) -> bool:
        """Whether the answer equals the expected text, either both as written or both without
        wrappers.
        """

        def same(first: str, second: str) -> bool:
            return _normal(first, case_sensitive) == _normal(second, case_sensitive)

        if same(self.written, expected):
            return True
        return self.takes_off and bool(self.bare) and same(self.bare, bare(expected))


def boxed(text: str) -> ExtractedAnswer | None:
    """Return the content of the last closed box; None when there is none."""
    content = last_box(text, framed=True)
    return None if content is None else _answer(content)


def final_answer(text: str) -> ExtractedAnswer | None:
    """Return the text after the last "Final answer:" or "Answer:", on the same line or the next."""
    last = None
    for last in _MARKER.finditer(text):  # noqa: B007  # the last match is what we want
        pass
    if last is None:
        return None
    remainder = text[last.end() :]
    marks = remainder[: len(remainder) - len(remainder.lstrip(_EDGES))]
    # Marks on the answer's own line are its own; those before it close the emphasis of "Answer:".
    line = remainder[marks.rfind("\n") + 1 :].split("\n", 1)[0]
    return _on(line)


def last_line(text: str) -> ExtractedAnswer | None:
    """Return the last line that is not empty."""
    stripped = text.rstrip()
    return _on(stripped[stripped.rfind("\n") + 1 :])


def full(text: str) -> ExtractedAnswer | None:
    """Return the whole text."""
    stripped = text.strip()
    return ExtractedAnswer(stripped, stripped, takes_off=False) if stripped else None


MODES: Final[Mapping[str, Callable[[str], ExtractedAnswer | None]]] = {
    "boxed": boxed,
    "final_answer": final_answer,
    "last_line": last_line,
    "full": full,
}


def extracted(text: str, mode: ExtractionMode | None) -> ExtractedAnswer | None:
    """Return the answer found by `mode`. Without a mode, try box, final answer and last line in
    turn.
    """
    if mode is not None:
        return MODES[mode](text)
    candidates = (find(text) for find in (boxed, final_answer, last_line))
    return next(
        (answer for answer in candidates if answer and (answer.bare or answer.written)), None
    )


def bare(text: str) -> str:
    r"""Remove emphasis, quotes, dollar signs and `\text{…}` around the whole text, and resolve
    escapes.
    """
    text = plain_text(_without_period(text))
    for _ in range(_MOST_WRAPPERS):
        inner = _without_period(text)
        for opening, closing in _QUOTES:
            if len(inner) > 1 and inner.startswith(opening) and inner.endswith(closing):
                inner = inner[1:-1]
        if inner == text:
            break
        text = inner
    return text


def _without_period(text: str) -> str:
    inner = text.strip(_EDGES)
    ends_sentence = _CLOSED.search(inner, max(0, len(inner) - 2))
    return inner[:-1].rstrip(_EDGES) if ends_sentence else inner


def _answer(written: str) -> ExtractedAnswer:
    return ExtractedAnswer(written.strip(), bare(written))


def _on(line: str) -> ExtractedAnswer | None:
    """Return the content of a box on the line, else the line; None for an empty line."""
    content = last_box(line, framed=True)
    answer = _answer(line if content is None else content)
    return answer if answer.written else None


def _normal(text: str, case_sensitive: bool) -> str:
    spaced = " ".join(unicodedata.normalize("NFC", text).split())
    plain = spaced.removesuffix(".").rstrip() or spaced
    return plain if case_sensitive else plain.casefold()


def _as_text(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


class StringMatchVerifyRequest(VerifyRequest):
    """A row: the expected answer, and where to find the model's answer in its text."""

    expected_answer: Annotated[str, BeforeValidator(_as_text), Field(pattern=r"\S")]

    extraction_mode: ExtractionMode | None = None
    """How to find the answer. Without a mode: the first that exists of box, final answer and last
    line."""

    case_sensitive: bool = False


WRITTEN: Mapping[str, str] = {
    "boxed": "\\boxed{?}",
    "final_answer": "I thought it over.\nFinal answer: ?",
    "last_line": "I thought it over.\n?",
    "full": "?",
}
"""The format of an answer for each extraction mode; `?` stands for the answer."""


class StringMatchServer(AttemptsServer):
    """A resources server that compares the answer in the last message with the expected text."""

    has_majority: ClassVar[bool] = True

    config: ResourcesServerConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the expected answer in the format of the row's extraction mode."""
        form = WRITTEN[row.get("extraction_mode") or "boxed"]
        return response_of(form.replace("?", str(row["expected_answer"])))

    async def verify(self, body: StringMatchVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the answer equals the expected text; else 0.0."""
        answer = extracted(body.response.final_text, body.extraction_mode)
        if answer is None:
            return self.reply(body, 0.0, extracted_answer=None)
        right = answer.says(body.expected_answer, case_sensitive=body.case_sensitive)
        return self.reply(body, float(right), extracted_answer=answer.bare or answer.written)

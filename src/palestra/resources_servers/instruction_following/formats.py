"""Instructions about the format of an answer: lists, sections, titles, marks, JSON."""

import json
import re
from typing import Final

from palestra.resources_servers.instruction_following.instruction import (
    Answer,
    Count,
    Instruction,
    Phrase,
)
from palestra.resources_servers.instruction_following.sentences import plain_sentences
from palestra.resources_servers.instruction_following.words import count_matches, keyword_pattern

# White space before a bullet is looked for on its line only: over lines, the search would take a
# time that is quadratic in their number, and find the same bullets.
_STAR_BULLET: Final = re.compile(r"^[^\S\n]*\*[^*].*$", re.MULTILINE)
_DASH_BULLET: Final = re.compile(r"^[^\S\n]*-.*$", re.MULTILINE)
_HIGHLIGHT: Final = re.compile(r"\*[^\n*]*\*")
_DOUBLE_HIGHLIGHT: Final = re.compile(r"\*\*[^\n*]*\*\*")
_PS: Final = re.compile(r"p\.\s?s\.")
_PPS: Final = re.compile(r"p\.\s?p\.\s?s")
_FENCES: Final = ("```json", "```Json", "```JSON", "```")

CHOICES: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


class Placeholders(Instruction):
    """The answer has at least `num_placeholders` placeholders in square brackets, each on one line."""

    num_placeholders: Count

    def follows(self, answer: Answer) -> bool:
        count = sum(map(_count_bracketed, answer.text.split("\n")))
        return count >= self.num_placeholders


class Postscript(Instruction):
    """The answer contains the mark of a postscript, in upper or lower case."""

    postscript_marker: Phrase

    def follows(self, answer: Answer) -> bool:
        marker = self.postscript_marker.strip()
        markers = {"P.S.": _PS, "P.P.S": _PPS}
        pattern = markers.get(marker) or keyword_pattern(marker.lower())
        return pattern.search(answer.text.lower()) is not None


class Bullets(Instruction):
    """Exactly `num_bullets` lines start with an asterisk or a dash."""

    num_bullets: Count

    def follows(self, answer: Answer) -> bool:
        count = count_matches(_STAR_BULLET, answer.text) + count_matches(_DASH_BULLET, answer.text)
        return count == self.num_bullets


class ConstrainedResponse(Instruction):
    """The answer contains one of the sentences in `CHOICES`: yes, no or maybe."""

    def follows(self, answer: Answer) -> bool:
        return any(choice in answer.text for choice in CHOICES)


class Highlights(Instruction):
    """The answer has at least `num_highlights` passages between single or double asterisks."""

    num_highlights: Count

    def follows(self, answer: Answer) -> bool:
        single = sum(1 for m in _HIGHLIGHT.finditer(answer.text) if m[0].strip("*").strip())
        double = sum(1 for m in _DOUBLE_HIGHLIGHT.finditer(answer.text) if m[0][2:-2].strip())
        return single + double >= self.num_highlights


class Sections(Instruction):
    """The answer has at least `num_sections` sections, each marked by a word and a number."""

    section_spliter: Phrase
    num_sections: Count

    def follows(self, answer: Answer) -> bool:
        word = re.escape(self.section_spliter.strip())
        return count_matches(re.compile(word + r"\s?\d+"), answer.text) >= self.num_sections


class JsonFormat(Instruction):
    """The whole answer is JSON, with or without a code fence."""

    def follows(self, answer: Answer) -> bool:
        text = answer.text.strip()
        for fence in _FENCES:
            text = text.removeprefix(fence)
        try:
            json.loads(text.removesuffix("```").strip())
        except (ValueError, RecursionError):
            return False
        return True


class Title(Instruction):
    """The answer has a title in double angle brackets, on one line."""

    def follows(self, answer: Answer) -> bool:
        return any(map(_has_title, answer.text.split("\n")))


class SentenceHyphens(Instruction):
    """Sentences are joined by hyphens without spaces."""

    def follows(self, answer: Answer) -> bool:
        sentences = plain_sentences(answer.text.replace("-", " "))
        parts = answer.text.split("-")
        return all(
            part == sentence and part == part.strip()
            for part, sentence in zip(parts, sentences, strict=False)
        )


class SquareBrackets(Instruction):
    """Every word is in square brackets."""

    def follows(self, answer: Answer) -> bool:
        return all(word.startswith("[") and word.endswith("]") for word in answer.text.split())


class WrappedBigrams(Instruction):
    """Every pair of words is in double angle brackets."""

    def follows(self, answer: Answer) -> bool:
        words = answer.text.split()
        return all(
            first.startswith("<<") and two.endswith(">>")
            for first, two in zip(words[::2], words[1::2], strict=False)
        )


class NoComma(Instruction):
    """The answer has no comma."""

    def follows(self, answer: Answer) -> bool:
        return "," not in answer.text


class NoPeriod(Instruction):
    """The answer has no period."""

    def follows(self, answer: Answer) -> bool:
        return "." not in answer.text


class NoExclamationMark(Instruction):
    """The answer has no exclamation mark."""

    def follows(self, answer: Answer) -> bool:
        return "!" not in answer.text


class Quotation(Instruction):
    """The whole answer is in double quotation marks."""

    def follows(self, answer: Answer) -> bool:
        text = answer.text.strip()
        return len(text) > 1 and text[0] == '"' == text[-1]


def _count_bracketed(line: str) -> int:
    count = 0
    end = -1
    while (start := line.find("[", end + 1)) >= 0 and (end := line.find("]", start)) >= 0:
        count += 1
    return count


def _has_title(line: str) -> bool:
    """Whether the longest `<<…>>` of a line contains more than brackets and white space."""
    start, end = line.find("<<"), line.rfind(">>")
    if start < 0 or end < start + len("<<x"):
        return False
    return bool(line[start : end + 2].lstrip("<").rstrip(">").strip())

"""Instructions about the shape of an answer: lists, sections, titles, marks, JSON."""

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
    """At least so many placeholders in square brackets, each on one line."""

    num_placeholders: Count

    def follows(self, answer: Answer) -> bool:
        found = sum(map(_count_bracketed, answer.text.split("\n")))
        return found >= self.num_placeholders


class Postscript(Instruction):
    """A postscript's mark occurs, in either case."""

    postscript_marker: Phrase

    def follows(self, answer: Answer) -> bool:
        marker = self.postscript_marker.strip()
        known = {"P.S.": _PS, "P.P.S": _PPS}
        pattern = known.get(marker) or keyword_pattern(marker.lower())
        return pattern.search(answer.text.lower()) is not None


class Bullets(Instruction):
    """Exactly so many lines that start with an asterisk or a dash."""

    num_bullets: Count

    def follows(self, answer: Answer) -> bool:
        found = count_matches(_STAR_BULLET, answer.text) + count_matches(_DASH_BULLET, answer.text)
        return found == self.num_bullets


class ConstrainedResponse(Instruction):
    """One of the three answers yes, no and maybe occurs, in its full wording."""

    def follows(self, answer: Answer) -> bool:
        return any(choice in answer.text for choice in CHOICES)


class Highlights(Instruction):
    """At least so many passages between one or two asterisks."""

    num_highlights: Count

    def follows(self, answer: Answer) -> bool:
        single = sum(1 for m in _HIGHLIGHT.finditer(answer.text) if m[0].strip("*").strip())
        double = sum(1 for m in _DOUBLE_HIGHLIGHT.finditer(answer.text) if m[0][2:-2].strip())
        return single + double >= self.num_highlights


class Sections(Instruction):
    """At least so many sections, each marked by a word with a number after it."""

    section_spliter: Phrase
    num_sections: Count

    def follows(self, answer: Answer) -> bool:
        word = re.escape(self.section_spliter.strip())
        return count_matches(re.compile(word + r"\s?\d+"), answer.text) >= self.num_sections


class JsonFormat(Instruction):
    """The whole answer is JSON, in a fence or not."""

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
    """A title in double angular brackets, on one line."""

    def follows(self, answer: Answer) -> bool:
        return any(map(_has_title, answer.text.split("\n")))


class SentenceHyphens(Instruction):
    """Hyphens, and no spaces, stand between sentences."""

    def follows(self, answer: Answer) -> bool:
        sentences = plain_sentences(answer.text.replace("-", " "))
        parts = answer.text.split("-")
        return all(
            part == sentence and part == part.strip()
            for part, sentence in zip(parts, sentences, strict=False)
        )


class SquareBrackets(Instruction):
    """Every word stands in square brackets."""

    def follows(self, answer: Answer) -> bool:
        return all(word.startswith("[") and word.endswith("]") for word in answer.text.split())


class WrappedBigrams(Instruction):
    """Every two words stand in double angular brackets."""

    def follows(self, answer: Answer) -> bool:
        words = answer.text.split()
        return all(
            one.startswith("<<") and two.endswith(">>")
            for one, two in zip(words[::2], words[1::2], strict=False)
        )


class NoComma(Instruction):
    """No comma."""

    def follows(self, answer: Answer) -> bool:
        return "," not in answer.text


class NoPeriod(Instruction):
    """No period."""

    def follows(self, answer: Answer) -> bool:
        return "." not in answer.text


class NoExclamationMark(Instruction):
    """No exclamation mark."""

    def follows(self, answer: Answer) -> bool:
        return "!" not in answer.text


class Quotation(Instruction):
    """The whole answer stands in double quotation marks."""

    def follows(self, answer: Answer) -> bool:
        text = answer.text.strip()
        return len(text) > 1 and text[0] == '"' == text[-1]


def _count_bracketed(line: str) -> int:
    found = 0
    end = -1
    while (start := line.find("[", end + 1)) >= 0 and (end := line.find("]", start)) >= 0:
        found += 1
    return found


def _has_title(line: str) -> bool:
    """Whether the longest "<<…>>" of a line holds more than brackets and white space."""
    start, end = line.find("<<"), line.rfind(">>")
    if start < 0 or end < start + len("<<x"):
        return False
    return bool(line[start : end + 2].lstrip("<").rstrip(">").strip())

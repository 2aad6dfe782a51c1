r"""One answer, spelt many ways: what is taken off or rewritten before the library reads it.

Everything here is about form. Nothing is evaluated, and nothing here says that two answers are
equal except that they are the same words, or the same option.
"""

import re
import unicodedata
from typing import Final

_DELIMITERS: Final = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"))
_TEXT = re.compile(
    r"\\(?:text|textbf|textit|textrm|textnormal|textsf|mathrm|mathbf|mathit|mathsf|mathtt|mbox|"
    r"operatorname|bf|rm|it)\s*\{([^{}]*)\}"
)
_SPACE = re.compile(r"\\[,;:! ]|\\(?:quad|qquad|thinspace|enspace)(?![A-Za-z])|(?<!\\)~|\s+")
_MIXED = re.compile(r"(-?\d+)\s+(\d+)\s*/\s*(\d+)")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,\\{}])-?\d{1,3}(?:(?:\\[,; ]|~|\{,\}| )\d{3})+(?![\d])")
_OPTION = re.compile(r"(?:(?:option|choice|answer)\s+)?\(?([A-J])\s?(?:[).:\]]+(?:\s.*)?)?")
_OTHER_OPTION = re.compile(r"(?<![A-Za-z])[A-J](?=[).:\]])")
_WORDS = re.compile(r"[^\W\d_]{4,}(?: [^\W\d_]+)*")
_EDGES: Final = " .,;:。"
_MARGIN: Final = r"(?:\s|\\[,;:! ]|\\q?quad(?![A-Za-z])|~|[.;,。])"
_MARGINS = re.compile(rf"^{_MARGIN}+|{_MARGIN}+\\?$|(?<!\\)\\$")
_FONT = re.compile(
    r"\\(?:mathbf|mathrm|mathit|mathsf|boldsymbol|bm|ensuremath|displaystyle)\s*\{(.*)\}", re.DOTALL
)
_BIG = re.compile(r"\\[Bb]igg?[lrm]?(?![A-Za-z])\s*")
_DENIAL = re.compile(r"\b(?:not|no|never|wrong|incorrect|false|isn't|cannot)\b")
_BASE = re.compile(r"\d_\s*\{?\s*(\d+)\s*\}?$")


def bare(answer: str) -> str:
    r"""Without what stands around it: `$…$`, `\(…\)`, `\mathbf{…}`, spaces, a full stop."""
    for _ in range(4):
        before = answer
        # A dot in front is a decimal's.
        answer = _MARGINS.sub("", answer) if not answer.startswith(".") else answer.rstrip(" .;,")
        for left, right in _DELIMITERS:
            inner = answer[len(left) : len(answer) - len(right)]
            if _wrapped(answer, left, right) and left not in inner and right not in inner:
                answer = inner
        if (font := _FONT.fullmatch(answer)) and _balanced(font[1]):
            answer = font[1]
        if answer == before:
            break
    return answer


def _wrapped(text: str, left: str, right: str) -> bool:
    return (
        len(text) >= len(left) + len(right)
        and text.startswith(left)
        and text.endswith(right)
        and not text.endswith("\\" + right)
    )


def _balanced(text: str) -> bool:
    """Whether no brace closes that was not opened here."""
    depth = 0
    for brace in re.findall(r"\\.|[{}]", text):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return False
    return depth == 0


def rewritten(answer: str) -> str:
    r"""`3 1/2` as a mixed number, `1\,000` as one number, `\varnothing` as the empty set."""
    answer = _BIG.sub("", answer.replace("\\varnothing", "\\emptyset"))
    answer = answer.replace("\u2212", "-").replace("°", r"^\circ")
    exact, _, rounded = answer.partition("\\approx")
    answer = rounded.strip() if rounded and len(exact.strip()) < 2 else exact
    if match := _MIXED.fullmatch(answer):
        return rf"{match[1]}\frac{{{match[2]}}}{{{match[3]}}}"
    return _SPACED_THOUSANDS.sub(lambda found: re.sub(r"[^\d-]", "", found[0]), answer)


def words(answer: str) -> str:
    """As plain text, in one case and with single spaces; empty when there is nothing to read."""
    plain = unicodedata.normalize("NFKC", answer)
    for _ in range(3):
        plain = _TEXT.sub(r" \1 ", plain)
    return " ".join(_SPACE.sub(" ", plain).casefold().split()).strip(_EDGES)


def are_words(text: str) -> bool:
    """Whether a text, as `words` returns it, is language: letters that are no product."""
    return _WORDS.fullmatch(text) is not None


def option(answer: str) -> str:
    r"""The letter of an option, from "C", "(C)", `\text{C}`, "C) 12", "C. 12"; else empty."""
    plain = answer
    for _ in range(3):
        plain = _TEXT.sub(r" \1 ", plain)
    plain = _SPACE.sub(" ", plain).strip()
    match = _OPTION.fullmatch(plain)
    if match is None or set(_OTHER_OPTION.findall(plain[match.end(1) :])):
        return ""
    return match[1]


def denies(answer: str) -> bool:
    r"""Whether its words say that something is not so, as in `3 \text{ is wrong}`."""
    return any(_DENIAL.search(text.casefold()) for text in _TEXT.findall(answer))


def base_of(answer: str) -> str:
    """The base that a numeral states, `2` in `101_2`; empty when it states none."""
    found = _BASE.search(answer)
    return found[1] if found else ""

r"""Remove decoration from answers: colours, sizes, "The answer is", and signs that are not LaTeX.

Only the form changes, as in `spelling`, which calls this module first. Examples: `{\color{red}7}`,
`√5`, `½`, `7 \blacksquare`. Magnitudes in words become numbers: `7\text{ million}` is 7000000.
"""

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Final

_NAME: Final = r"\s*\{\s*#?[\w!.-]+\s*\}"
_COLOUR = re.compile(rf"\\color(?:\s*\[\w+\])?{_NAME}")
_WRAPPER = re.compile(
    rf"\\(?:textcolor{_NAME}|colorbox{_NAME}|underline|uline|underbar)\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}"
)
_SIZE = re.compile(
    r"\\(?:tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|huge|Huge|"
    r"textstyle|scriptstyle|bfseries|boldmath|bf(?=\s))(?![A-Za-z])\s*"
)
_END = re.compile(
    r"(?:\s|\\[,;:! ]|~)*(?:\\(?:blacksquare|square|Box|qed|checkmark|newline|hfill|quad|qquad)"
    r"(?![A-Za-z])|\\\\|[■□✓✔∎])\s*$"
)
_LEAD: Final = (
    r"(?:(?:so|thus|hence|therefore),?\s+)?(?:(?:the|my|our)\s+)?(?:(?:final|correct)\s+)?"
    r"(?:answer|result|solution)\s*(?:\bis\b|:|=|equals\b)\s*:?\s*"
)
_LEAD_IN_TEXT = re.compile(rf"^(\\text(?:bf|rm|it)?\s*\{{)\s*{_LEAD}", re.IGNORECASE)
_LEAD_ALONE = re.compile(rf"^{_LEAD}", re.IGNORECASE)
_EQUALS = re.compile(r"^=\s*(?=[^=\s])")
_GROUP = re.compile(r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*")
_AMOUNT_IN_TEXT = re.compile(
    r"\\text(?:bf|rm|it|normal)?\s*\{\s*(-?\d[\d.,]*)\s+(?![ap]\.?m\b)([A-Za-z][^{}\d]*)\}",
    re.IGNORECASE,
)
_MAGNITUDES: Final = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_MAGNITUDE = re.compile(
    r"(?:(?<![\w.,^{}\\])(?P<number>\d[\d,]*(?:\{,\}\d{3})*(?:\.\d+)?)|(?P<before>\}))"
    r"(?:\s|\\[,;: ]|~)*(?P<text>\\(?:text|textrm|mathrm|mbox)\s*\{)?\s*"
    rf"\b(?P<word>{'|'.join(_MAGNITUDES)})s?\b(?P<end>\s*\}})?",
    re.IGNORECASE,
)
_RATIO = re.compile(r"(\d+)\s*(?:\\text\s*\{\s*to\s*\}|to)\s*(\d+)")
_OHM = re.compile(
    r"(?<=[\d}])(?:\s|\\[,;: ]|~)+(?:\\(?:mathrm|text)\s*\{\s*)?(?:\\Omega|\\ohm|[\u03a9\u2126])\s*\}?\s*$"
)
_ELLIPSIS = re.compile(
    r"(?<![\d.])(\d*)\.(\d*?)(\d{1,6})\3\3+\s*(?:\.\.\.|\u2026|\\[lc]?dots(?![A-Za-z]))(?!\d)"
)
_DASH = re.compile(r"(^|[(\[{,;=+*/^]\s*)[\u2012\u2013\ufe63\uff0d]\s*(?=[\d.\\A-Za-z(√])")
_ROOT = re.compile(r"√\s*(?:\{([^{}]*)\}|\(([^()]*)\)|(\d+(?:\.\d+)?|[A-Za-z]))")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ]+")
_VULGAR = re.compile("[¼-¾⅐-⅞]")


def undressed(answer: str) -> str:
    """Remove decoration from an answer, and replace its signs by LaTeX."""
    answer = _plain_signs(_without_lead(_without_looks(answer)))
    answer = _AMOUNT_IN_TEXT.sub(r"\1 \\text{ \2}", answer)
    for _ in range(2):  # a hundred thousand
        answer = _MAGNITUDE.sub(_multiplied, answer)
    if ratio := _RATIO.fullmatch(answer.strip()):
        answer = f"{ratio[1]}:{ratio[2]}"
    return _OHM.sub(r" \\text{ ohm}", answer)


def with_periods(answer: str) -> str:
    r"""Rewrite `0.333...` as `0.\overline{3}`: digits written three times repeat forever."""
    return _ELLIPSIS.sub(_period, answer)


def _without_looks(answer: str) -> str:
    for _ in range(3):
        before = answer
        answer = _SIZE.sub("", _COLOUR.sub("", answer))
        answer = _WRAPPER.sub(r"{\1}", answer)
        if (stripped := _END.sub("", answer)).strip():
            answer = stripped
        if answer == before:
            break
        if answer.startswith("{") and answer.endswith("}") and _GROUP.fullmatch(answer[1:-1]):
            answer = answer[1:-1].strip()
    return answer


def _without_lead(answer: str) -> str:
    answer = _LEAD_IN_TEXT.sub(r"\1", answer.strip()).strip()
    return _EQUALS.sub("", _LEAD_ALONE.sub("", answer)) or answer


def _plain_signs(answer: str) -> str:
    answer = _DASH.sub(r"\1-", answer).replace("∞", r"\infty ").replace("{:}", ":")
    answer = answer.replace(r"{\,}", r"\,")
    for form, written in _SIGNS:
        answer = form.sub(written, answer)
    return answer


def _root(match: re.Match[str]) -> str:
    return rf"\sqrt{{{next(part for part in match.groups() if part is not None)}}}"


def _raised(match: re.Match[str]) -> str:
    power = unicodedata.normalize("NFKC", match[0]).replace("\u2212", "-")
    return f"^{power}" if len(power) == 1 else f"^{{{power}}}"


def _vulgar(match: re.Match[str]) -> str:
    above, below = unicodedata.normalize("NFKC", match[0]).split("\u2044")
    return rf"\frac{{{above}}}{{{below}}}"


def _period(match: re.Match[str]) -> str:
    return rf"{match[1] or 0}.{match[2]}\overline{{{match[3]}}}"


def _multiplied(match: re.Match[str]) -> str:
    factor = _MAGNITUDES[match["word"].casefold()]
    operand = match["text"] or ""
    if match["end"]:
        operand = "" if operand else match["end"]
    if number := match["number"]:
        value = f"{Decimal(re.sub(r'[,{}]', '', number)) * factor:f}"
        value = value.rstrip("0").rstrip(".") if "." in value else value
        return f"{value} {operand}" if operand else value
    return rf"{match['before']} \times {factor} {operand}"


_SIGNS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_ROOT, _root),
    (_RAISED, _raised),
    (_VULGAR, _vulgar),
)

"""Rewrite the many spellings of an answer before math-verify reads it.

Only the form of an answer changes; nothing is evaluated. Two answers are called equal only when
they are the same words or the same option.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from palestra.resources_servers.math_with_judge.dress import undressed, with_periods

_DELIMITERS: Final = (("\\[", "\\]"), ("$", "$"))
WRAPPED: Final = 3
"""The depth to which nested text commands are read."""
TEXT = re.compile(
    r"\\(?:text|textbf|textit|textrm|textnormal|textsf|mathrm|mathbf|mathit|mathsf|mathtt|mbox|"
    r"operatorname|bf|rm|it)\s*\{([^{}]*)\}"
)
_SPACE = re.compile(r"\\[,;:! ]|\\(?:quad|qquad|thinspace|enspace)(?![A-Za-z])|(?<!\\)~|\s+")
_MIXED = re.compile(r"(-?\d+)\s+(\d+)\s*/\s*(\d+)")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,\\{}])-?\d{1,3}(?:(?:\\[,; ]|~|\{,\}| )\d{3})+(?![\d])")
_OPTION = re.compile(r"(?:(?i:option|choice|answer)\s+)?\(?([A-J])\s?(?:[).:\]]+(?:\s.*)?)?")
_OTHER_OPTION = re.compile(r"(?<![A-Za-z])[A-J](?=[).:\]])")
_WORDS = re.compile(r"[^\W\d_]{4,}(?: [^\W\d_]+)*")
_LONGEST_NUMERAL: Final = 100
_BLANKS = re.compile(r"\s\s+")
_EDGES: Final = " .,;:。"
_MARGIN: Final = r"(?:\s|\\[,;:! ]|\\q?quad(?![A-Za-z])|~|[.;,。])"
_MARGINS = re.compile(rf"^{_MARGIN}+|{_MARGIN}+\\?$|(?<!\\)\\$")
_FONT = re.compile(
    r"\\(?:mathbf|mathrm|mathit|mathsf|boldsymbol|bm|ensuremath|displaystyle)\s*\{(.*)\}", re.DOTALL
)
_BIG = re.compile(r"\\[Bb]igg?[lrm]?(?![A-Za-z])\s*")
_VARIABLE = re.compile(
    r"(?:[A-Za-z]|\\(?!pi(?![a-z]))[A-Za-z]+)(?:_(?:\w|\{[^{}]*\}))?(?:\([^()]*\))?|"
)
r"""Matches the left side of an approximation like `x \approx 3.1`: a name, or an empty text."""
_SUBSCRIPT = re.compile(rf"_\s*\{{\s*{TEXT.pattern}\s*\}}")
_REPEATING = re.compile(
    r"(?<![\d.])(\d*)\.(\d*)\\(?:overline|bar|dot)(?![A-Za-z])\s*(?:\{\s*(\d+)\s*\}|(\d))"
)
_SCIENTIFIC = re.compile(
    r"(?<![\w.}\\])(?:(\d+\.\d+|1)[eE]([+-]?\d+)|(\d+)[eE](\d+|[+-]\d{2,}))(?![\w.])"
)
_PERHAPS_SCIENTIFIC = re.compile(r"(?<![\w.}\\])(\d+)e([+-]\d)(?![\w.])")
r"""Matches `3e-8`, which may mean `3 \times 10^{-8}` or `3e - 8`. `1e-3` and `1.5e-3` are not
ambiguous."""
_BUILDER = re.compile(
    r"\\?\{\s*([A-Za-z])\s*(?:\\in\s*\\mathbb\s*\{?\s*R\s*\}?\s*)?"
    r"(?:\\mid(?![A-Za-z])|\\vert(?![A-Za-z])|\\colon(?![A-Za-z])|[|:])\s*(.+?)\s*\\?\}",
    re.DOTALL,
)
_BINOMIAL = re.compile(r"(\\[dt]?binom)\s*(\{[^{}]*\}|[0-9A-Za-z])\s*(\{[^{}]*\}|[0-9A-Za-z])")
_NATURAL = re.compile(r"\\log_\s*(?:e(?![A-Za-z])|\{\s*e\s*\})")
_PRIMES = re.compile(r"\^\s*(?:\{\s*((?:\\prime\s*|')+)\}|(\\prime)(?![A-Za-z]))|[\u2032\u2033]")
_MONEY: Final = {"€": "euros", "\\euro": "euros", "£": "pounds", "\\pounds": "pounds", "¥": "yen"}
_SIGN: Final = "|".join(map(re.escape, _MONEY))
_PRICE = re.compile(
    rf"(?P<minus>-?)\s*(?:(?P<before>{_SIGN})\s*(?P<sum>\d[\d.,]*)|(?P<amount>\d[\d.,]*)\s*(?P<after>{_SIGN}))"
)
_BASE = re.compile(r"\d_\s*\{?\s*(\d+)\s*\}?$")


def bare(answer: str) -> str:
    r"""Remove what surrounds an answer: `$…$`, `\(…\)`, `\mathbf{…}`, spaces, a full stop."""
    answer = _BLANKS.sub(" ", answer)  # long runs of them make what follows slow
    for _ in range(4):
        before = answer
        # A dot in front is a decimal's.
        answer = _MARGINS.sub("", answer) if not answer.startswith(".") else answer.rstrip(" .;,")
        for opening, right in _DELIMITERS:
            inner = answer[len(opening) : len(answer) - len(right)]
            if _wrapped(answer, opening, right) and opening not in inner and right not in inner:
                answer = inner
        if (font := _FONT.fullmatch(answer)) and _balanced(font[1]):
            answer = font[1]
        if answer == before:
            break
    return answer


def _wrapped(text: str, opening: str, right: str) -> bool:
    return (
        len(text) >= len(opening) + len(right)
        and text.startswith(opening)
        and text.endswith(right)
        and not text.endswith("\\" + right)
    )


def _balanced(text: str) -> bool:
    """Whether the braces of a text match."""
    depth = 0
    for brace in re.findall(r"\\.|[{}]", text):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return False
    return depth == 0


def rewritten(answer: str) -> str:
    r"""Rewrite an answer into forms that math-verify can read.

    `3 1/2` becomes a mixed number, `1\,000` one number, `3e8` a product, `0.\overline{3}` a
    fraction, `\log_e` becomes `\ln`, and `€5` five euros.
    """
    answer = bare(undressed(answer))
    answer = _BIG.sub("", answer.replace("\\varnothing", "\\emptyset"))
    answer = answer.replace("\u2212", "-").replace("°", r"^\circ")
    exact, _, rounded = answer.partition("\\approx")
    answer = rounded.strip() if rounded and _VARIABLE.fullmatch(exact.strip()) else exact
    for form, written in _REWRITINGS:
        answer = form.sub(written, answer)
    if match := _MIXED.fullmatch(answer):
        return rf"{match[1]}\frac{{{match[2]}}}{{{match[3]}}}"
    if price := _PRICE.fullmatch(answer.strip()):
        money = _MONEY[price["before"] or price["after"]]
        return rf"{price['minus']}{price['sum'] or price['amount']} \text{{ {money}}}"
    return _SPACED_THOUSANDS.sub(lambda match: re.sub(r"[^\d-]", "", match[0]), answer)


def readings(answer: str) -> Sequence[str]:
    """Return the rewritten answer, and a second way to read it if there is one."""
    plain = _both_signs(rewritten(bare(with_periods(answer))))
    in_scientific = _PERHAPS_SCIENTIFIC.sub(r"\1 \\times 10^{\2}", plain)
    return (plain,) if in_scientific == plain else (plain, in_scientific)


def _both_signs(answer: str) -> str:
    r"""Write `\frac{1\pm\sqrt5}{2}` as its two values. math-verify reads `\pm` only outside of
    braces.
    """
    head, sign, tail = answer.partition("\\pm")
    is_inside = head.count("{") - head.count("\\{") > head.count("}") - head.count("\\}")
    if not sign or not is_inside or "," in answer or "\\pm" in tail or "\\mp" in tail:
        return answer
    return f"{head}+{tail}, {head}-{tail}" if not tail[:1].isalpha() else answer


def condition(answer: str) -> str:
    r"""Return the condition of a set, `x>1` of `\{x \mid x>1\}`; empty for any other answer."""
    match = _BUILDER.fullmatch(answer.replace("\\left", "").replace("\\right", "").strip())
    return match[2] if match and match[1] in match[2] else ""


def _primes(match: re.Match[str]) -> str:
    marks = match[0].replace("\u2033", "\u2032\u2032")
    return "'" * sum(marks.count(mark) for mark in ("prime", "'", "\u2032"))


def _fraction(match: re.Match[str]) -> str:
    r"""Write `0.1\overline{6}` as a fraction."""
    integer, fixed, period = match[1], match[2], match[3] or match[4]
    if len(integer) + len(fixed) + len(period) > _LONGEST_NUMERAL:
        return match[0]
    numerator = int(f"{integer}{fixed}{period}") - int(f"{integer}{fixed}" or 0)
    return rf"\frac{{{numerator}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"


def _braced(match: re.Match[str]) -> str:
    above, below = (part if part.startswith("{") else f"{{{part}}}" for part in match.groups()[1:])
    return f"{match[1]}{above}{below}"


_REWRITINGS: Final = (
    (_PRIMES, _primes),
    (_SUBSCRIPT, r"_{\1}"),
    (_SCIENTIFIC, r"\1\3 \\times 10^{\2\4}"),
    (_REPEATING, _fraction),
    (_BINOMIAL, _braced),
    (_NATURAL, r"\\ln "),
)


def words(answer: str) -> str:
    """Return an answer as plain text in lower case, with single spaces; empty without any text."""
    plain = unicodedata.normalize("NFKC", answer)
    for _ in range(WRAPPED):
        plain = TEXT.sub(r" \1 ", plain)
    return " ".join(_SPACE.sub(" ", plain).casefold().split()).strip(_EDGES)


def are_words(text: str) -> bool:
    """Whether a text from `words` is natural language, and not a product of letters."""
    return _WORDS.fullmatch(text) is not None


def option(answer: str) -> str:
    r"""Return the letter of an option from "C", "(C)", `\text{C}`, "C) 12" or "C. 12"; else an empty
    text.
    """
    plain = answer
    for _ in range(WRAPPED):
        plain = TEXT.sub(r" \1 ", plain)
    plain = _SPACE.sub(" ", plain).strip()
    match = _OPTION.fullmatch(plain)
    if match is None or set(_OTHER_OPTION.findall(plain[match.end(1) :])):
        return ""
    return match[1]


def base_of(answer: str) -> str:
    """Return the base of a numeral, `2` for `101_2`; empty when it states none."""
    match = _BASE.search(answer)
    return match[1] if match else ""

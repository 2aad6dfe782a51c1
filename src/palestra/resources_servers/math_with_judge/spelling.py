r"""One answer, spelt many ways: what is taken off or rewritten before the library reads it.

Everything here is about form. Nothing is evaluated, and nothing here says that two answers are
equal except that they are the same words, or the same option.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from palestra.resources_servers.math_with_judge.dress import undressed, with_periods

_DELIMITERS: Final = (("\\[", "\\]"), ("$", "$"))
WRAPPED: Final = 3
"""How deep text commands in text commands are read."""
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
"""What an approximation may be of, that is no value itself; or nothing."""
_SUBSCRIPT = re.compile(rf"_\s*\{{\s*{TEXT.pattern}\s*\}}")
_REPEATING = re.compile(
    r"(?<![\d.])(\d*)\.(\d*)\\(?:overline|bar|dot)(?![A-Za-z])\s*(?:\{\s*(\d+)\s*\}|(\d))"
)
_SCIENTIFIC = re.compile(
    r"(?<![\w.}\\])(?:(\d+\.\d+|1)[eE]([+-]?\d+)|(\d+)[eE](\d+|[+-]\d{2,}))(?![\w.])"
)
_PERHAPS_SCIENTIFIC = re.compile(r"(?<![\w.}\\])(\d+)e([+-]\d)(?![\w.])")
r"""`3e-8` may be `3 \times 10^{-8}` or `3e - 8`; `1e-3` and `1.5e-3` are no products."""
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
    r"""Without what stands around it: `$…$`, `\(…\)`, `\mathbf{…}`, spaces, a full stop."""
    answer = _BLANKS.sub(" ", answer)  # long runs of them make what follows slow
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
    r"""As the library reads it: `3 1/2` as a mixed number, `1\,000` as one number, `3e8` as a
    product, `0.\overline{3}` as a fraction, `\log_e` as `\ln`, `€5` as five euros.
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
    return _SPACED_THOUSANDS.sub(lambda found: re.sub(r"[^\d-]", "", found[0]), answer)


def readings(answer: str) -> Sequence[str]:
    """An answer as `rewritten` has it, and the other way to read it, where there is one."""
    plain = _both_signs(rewritten(bare(with_periods(answer))))
    other = _PERHAPS_SCIENTIFIC.sub(r"\1 \\times 10^{\2}", plain)
    return (plain,) if other == plain else (plain, other)


def _both_signs(answer: str) -> str:
    r"""`\frac{1\pm\sqrt5}{2}` as its two values; the library reads the sign outside of braces only."""
    head, sign, rest = answer.partition("\\pm")
    is_inside = head.count("{") - head.count("\\{") > head.count("}") - head.count("\\}")
    if not sign or not is_inside or "," in answer or "\\pm" in rest or "\\mp" in rest:
        return answer
    return f"{head}+{rest}, {head}-{rest}" if not rest[:1].isalpha() else answer


def condition(answer: str) -> str:
    r"""What a set's members fulfil, `x>1` of `\{x \mid x>1\}`; empty when it is no such set."""
    found = _BUILDER.fullmatch(answer.replace("\\left", "").replace("\\right", "").strip())
    return found[2] if found and found[1] in found[2] else ""


def _primes(found: re.Match[str]) -> str:
    marks = found[0].replace("\u2033", "\u2032\u2032")
    return "'" * sum(marks.count(mark) for mark in ("prime", "'", "\u2032"))


def _fraction(found: re.Match[str]) -> str:
    r"""`0.1\overline{6}` as a fraction."""
    whole, fixed, period = found[1], found[2], found[3] or found[4]
    if len(whole) + len(fixed) + len(period) > _LONGEST_NUMERAL:
        return found[0]
    numerator = int(f"{whole}{fixed}{period}") - int(f"{whole}{fixed}" or 0)
    return rf"\frac{{{numerator}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"


def _braced(found: re.Match[str]) -> str:
    above, below = (part if part.startswith("{") else f"{{{part}}}" for part in found.groups()[1:])
    return f"{found[1]}{above}{below}"


_REWRITINGS: Final = (
    (_PRIMES, _primes),
    (_SUBSCRIPT, r"_{\1}"),
    (_SCIENTIFIC, r"\1\3 \\times 10^{\2\4}"),
    (_REPEATING, _fraction),
    (_BINOMIAL, _braced),
    (_NATURAL, r"\\ln "),
)


def words(answer: str) -> str:
    """As plain text, in one case and with single spaces; empty when there is nothing to read."""
    plain = unicodedata.normalize("NFKC", answer)
    for _ in range(WRAPPED):
        plain = TEXT.sub(r" \1 ", plain)
    return " ".join(_SPACE.sub(" ", plain).casefold().split()).strip(_EDGES)


def are_words(text: str) -> bool:
    """Whether a text, as `words` returns it, is language: letters that are no product."""
    return _WORDS.fullmatch(text) is not None


def option(answer: str) -> str:
    r"""The letter of an option, from "C", "(C)", `\text{C}`, "C) 12", "C. 12"; else empty."""
    plain = answer
    for _ in range(WRAPPED):
        plain = TEXT.sub(r" \1 ", plain)
    plain = _SPACE.sub(" ", plain).strip()
    match = _OPTION.fullmatch(plain)
    if match is None or set(_OTHER_OPTION.findall(plain[match.end(1) :])):
        return ""
    return match[1]


def base_of(answer: str) -> str:
    """The base that a numeral states, `2` in `101_2`; empty when it states none."""
    found = _BASE.search(answer)
    return found[1] if found else ""

"""Split English text into sentences, in the two ways of the published checkers.

`split_sentences` is for counting. It applies the rules of Punkt (Kiss and Strunk 2006) without a
trained model. The published checker uses Punkt's English model, which is not shipped here: short
tables below replace its learned tables. Results differ only where a capitalized word that is not in
`STARTERS` follows an abbreviation, an initial or an ellipsis.

`plain_sentences` is for the first or last word of each sentence. It applies a few rules about
periods. Line breaks do not end a sentence.

Every function takes linear time in the length of the text.
"""

import re
from collections.abc import Iterator
from typing import Final

_DOT: Final = "\ue000"
"""Replaces a period that does not end a sentence."""
_END: Final = "\ue001"

_LETTER: Final = "([A-Za-z])"
_PLAIN_STARTERS: Final = (
    r"(Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s|However\s"
    r"|That\s|This\s|Wherever)"
)
_SUFFIXES: Final = "(Inc|Ltd|Jr|Sr|Co)"

_RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(Mr|St|Mrs|Ms|Dr)[.]", rf"\1{_DOT}"),
        (r"[.](com|net|org|io|gov|edu|me)", rf"{_DOT}\1"),
        (r"([0-9])[.]([0-9])", rf"\1{_DOT}\2"),
    )
)
_AFTER_ELLIPSES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"Ph\.D\.", f"Ph{_DOT}D{_DOT}"),
        (rf"\s{_LETTER}[.] ", rf" \1{_DOT} "),
        (rf"([A-Z][.][A-Z][.](?:[A-Z][.])?) {_PLAIN_STARTERS}", rf"\1{_END} \2"),
        (rf"{_LETTER}[.]{_LETTER}[.]{_LETTER}[.]", rf"\1{_DOT}\2{_DOT}\3{_DOT}"),
        (rf"{_LETTER}[.]{_LETTER}[.]", rf"\1{_DOT}\2{_DOT}"),
        (rf" {_SUFFIXES}[.] {_PLAIN_STARTERS}", rf" \1{_END} \2"),
        (rf" {_SUFFIXES}[.]", rf" \1{_DOT}"),
        (rf" {_LETTER}[.]", rf" \1{_DOT}"),
        ("\\.”", "”."),
        (r'\."', '".'),
        (r'!"', '"!'),
        (r'\?"', '"?'),
        (r"[.?!]", rf"\g<0>{_END}"),
    )
)
_DOTS: Final = re.compile(r"\.{2,}")


def plain_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, stripped. An empty last sentence is left out."""
    text = f" {text}  ".replace("\n", " ")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _DOTS.sub(lambda dots: _DOT * len(dots[0]) + _END, text)
    for pattern, replacement in _AFTER_ELLIPSES:
        text = pattern.sub(replacement, text)
    sentences = [part.strip() for part in text.replace(_DOT, ".").split(_END)]
    return sentences if sentences[-1] else sentences[:-1]


_ABBREVIATIONS: Final = """
    adm col dr gen lt maj messrs mr mrs ms prof rep reps sen st
    jan feb aug sep sept oct nov dec tues wed fri a.m p.m yr
    ala ariz calif colo conn fla ga ill kan ky mich minn nev okla ore pa tenn va vt wash wis
    ave d.c n.c n.d n.h n.j n.m n.y w.va u.k u.n u.s u.s.a u.s.s.r
    bros cie co corp cos inc ltd jr sr vs ct ft mg chg ok m.b.a ph.d
    b c d e f h k l m n p r s t v w
"""
_STARTERS: Final = """
    a about above according after again all almost along already also although among an and
    another any are as at be because before besides both but by can clearly could despite
    did do does during each either even every few finally first for from further generally
    had has have he hence her here his how however i if in indeed instead is it its just
    last later many may maybe meanwhile more moreover most much my neither nevertheless next
    no nonetheless nor not now of often on once one only or other others our over perhaps
    rather separately several she should similarly since so some sometimes soon still such
    that the their then there therefore these they this those though three through thus to
    today together two under unless until we what whatever when where whether which while
    who why with without would yes yet you your
"""

ABBREVIATIONS: Final = frozenset(_ABBREVIATIONS.split())
"""Abbreviations without their last period. As in the model, "etc.", "e.g." and "i.e." are missing.
"""

STARTERS: Final = frozenset(_STARTERS.split())
"""Words that have a capital only at the start of a sentence."""

_ENDS: Final = ".?!"
_NOT_IN_WORDS: Final = r"""[)";}\]*:@'({\[!?]"""
_MANY: Final = r"(?:-{2,}|\.{2,}|(?:\.\s){2,}\.)"
_CANDIDATE: Final = re.compile(rf"[{_ENDS}](?=(?P<after>{_NOT_IN_WORDS}|\s+(?P<next>\S+)))")
_TOKEN: Final = re.compile(
    rf"""{_MANY}
       | (?=[^("`{{\[:;&#*@)}}\]\-,]) \S+? (?=\s|$|{_NOT_IN_WORDS}|{_MANY}
                                            |,(?=$|\s|{_NOT_IN_WORDS}|{_MANY}))
       | \S""",
    re.VERBOSE,
)
_CLOSERS: Final = re.compile(r"""["')\]}]+?(?:\s+|(?=--)|$)""", re.MULTILINE)
_ELLIPSIS: Final = re.compile(r"\.\.+$")
_NUMBER: Final = re.compile(r"-?[.,]?\d[\d,.-]*\.?")
_INITIAL: Final = re.compile(r"[^\W\d]\.$")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text` in order, each with its closing quotes and brackets."""
    pieces = list(_pieces(text))
    sentences = []
    moved = 0
    for number, (start, end) in enumerate(pieces):
        begin, moved = start + moved, 0
        if number + 1 < len(pieces):
            next_start, next_end = pieces[number + 1]
            closers = _CLOSERS.match(text, next_start, next_end)
            if closers:
                end = next_start + len(closers[0].rstrip())  # noqa: PLW2901  # they close this one
                moved = len(closers[0])
        if text[begin:end]:
            sentences.append(text[begin:end])
    return sentences


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    decided: dict[str, bool] = {}
    for match, context in _candidates(text):
        if context not in decided:
            decided[context] = _holds_a_break(context)
        if decided[context]:
            yield start, match.end()
            start = match.start("next") if match["next"] else match.end()
    yield start, len(text.rstrip())


def _candidates(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each place where a sentence may end, with the word before it and the text after it.

    When a word has several such places, only the last is yielded, with the whole word.
    """
    begin = end = 0
    candidate: re.Match[str] | None = None
    for match in _CANDIDATE.finditer(text):
        last_space = _last_space(text, end, match.start())
        word_begin = last_space + 1 if last_space > end else begin
        if candidate is not None and end <= word_begin:
            yield candidate, text[begin:end] + candidate[0] + candidate["after"]
        candidate, begin, end = match, word_begin, match.start()
    if candidate is not None:
        yield candidate, text[begin:end] + candidate[0] + candidate["after"]


def _last_space(text: str, start: int, end: int) -> int:
    for index in range(end - 1, start - 1, -1):
        if text[index].isspace():
            return index
    return -1


def _holds_a_break(context: str) -> bool:
    """Whether a sentence ends inside `context`, between a token and the next one."""
    tokens = (match[0] for match in _TOKEN.finditer(context))
    token = next(tokens, None)
    for following in tokens:
        if token is not None and _ends_sentence(token, following):
            return True
        token = following
    return False


def _ends_sentence(token: str, following: str) -> bool:
    """Apply Punkt's rules: whether a sentence ends after `token`, given the `following` token."""
    if token in _ENDS:
        return True
    ellipsis = bool(_ELLIPSIS.match(token))
    if not token.endswith(".") or (token.endswith("..") and not ellipsis):
        return False
    starts = _starts_sentence(following)
    if _INITIAL.match(token):
        next_is_a_name = starts is None and following[0].isupper()
        return not (_is_abbreviation(token) or starts is False or next_is_a_name)
    if ellipsis or _is_abbreviation(token):
        return starts is True
    return not (starts is False and _NUMBER.fullmatch(token))


def _is_abbreviation(token: str) -> bool:
    stem = token[:-1].lower()
    return stem in ABBREVIATIONS or stem.rsplit("-", 1)[-1] in ABBREVIATIONS


def _starts_sentence(token: str) -> bool | None:
    """Whether `token` starts a sentence, judged by its first letter; None when that is unclear."""
    if token in {";", ":", ",", ".", "!", "?"}:
        return False
    if token[0].isupper():
        return True if token.lower().rstrip(".") in STARTERS else None
    return False if token[0].islower() else None

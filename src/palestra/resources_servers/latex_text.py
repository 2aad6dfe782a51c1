r"""LaTeX around a short answer: `\text{…}`, spaces and escapes. Shared by environments.

Linear in the length of the text; never raises.
"""

import re
from typing import Final

TEXT_COMMANDS: Final = (
    "boxed|fbox|mbox|text|textbf|textit|textrm|textsf|texttt|textup|textnormal|emph|underline|"
    "mathrm|mathbf|mathsf|mathit|mathtt|operatorname"
)
"""Commands that only say how their content looks, as alternatives of a pattern."""

_TOKEN: Final = re.compile(rf"(\\(?:{TEXT_COMMANDS})\s?\{{)|\\.|[{{}}]", re.DOTALL)
_DECLARATION: Final = re.compile(r"\\(?:rm|bf|it|sf|tt)(?![A-Za-z])\s*")
_SPACE: Final = re.compile(r"\\(?:[ ,;:!]|q?quad(?![A-Za-z]))|(?<=\w)~(?=\w)")
_ESCAPE: Final = re.compile(r"\\([%$&_#])")


def plain_text(text: str) -> str:
    r"""What a text says to its reader: `\textbf{(B)}\ 50\%` is `(B) 50%`.

    Commands other than those of text stay as they are, and so does a `~` that ties no words.
    """
    if "\\" not in text and "~" not in text:
        return text
    shown = _DECLARATION.sub("", _without_text_commands(text))
    return _ESCAPE.sub(r"\1", _SPACE.sub(" ", shown))


def _without_text_commands(text: str) -> str:
    open_braces: list[re.Match[str] | None] = []
    cuts: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(text):
        if token[1]:
            open_braces.append(token)
        elif token[0] == "{":
            open_braces.append(None)
        elif token[0] == "}" and open_braces:
            opened = open_braces.pop()
            if opened is not None:
                cuts += (opened.span(), token.span())
    kept, at = [], 0
    for start, end in sorted(cuts):
        kept.append(text[at:start])
        at = end
    return "".join((*kept, text[at:]))

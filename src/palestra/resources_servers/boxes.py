r"""LaTeX's `\boxed{…}`, in which models are asked to put their answer. Shared by environments.

Linear in the length of the text; never raises.
"""

import re

_TOKEN = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)


def last_box(text: str) -> str | None:
    r"""The content of the last closed `\boxed{…}`, or None; of nested ones, the innermost."""
    open_braces: list[int | None] = []
    start, found = -1, None
    for token in _TOKEN.finditer(text):
        if token[0] == "{":
            open_braces.append(None)
        elif token[0].startswith("\\boxed"):
            open_braces.append(token.end())
        elif token[0] == "}" and open_braces:
            opened = open_braces.pop()
            if opened is not None and opened > start:
                start, found = opened, text[opened : token.start()]
    return found

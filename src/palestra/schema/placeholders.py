"""The `{field}` placeholders of prompts."""

import re
from collections.abc import Container
from typing import Final

_DOUBLE_BRACES: Final = re.compile(r"(?<![\w\\}{])\{\{\s*([A-Za-z_]\w*)[^{}]*\}\}(?!\})")
"""A field as other template languages write it, such as `{{question}}`. No LaTeX: `\\boxed{{x}}`."""


def doubly_braced(text: str, fields: Container[str]) -> list[str]:
    """Return the fields that a prompt has in double braces, as in Jinja. Filled in, `{{question}}` is
    the text `{question}`.
    """
    return [name for name in _DOUBLE_BRACES.findall(text) if name in fields]


def double_brace_problem(name: str) -> str:
    """Return what is wrong with a field in double braces, as the end of a sentence."""
    return f"{{{{{name}}}}} is the literal text {{{name}}}; for the row's field write {{{name}}}"

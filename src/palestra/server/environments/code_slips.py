"""Refuse slips in an author's methods that would be no error, but wrong rewards, by the code:

- a question to the judge with a placeholder that no passage fills: the judge reads `{answer}`;
- the `response`, an object, compared with a text: the two are never equal.
"""

import ast
from collections.abc import Mapping
from typing import Any, Final

from palestra.errors import ConfigError
from palestra.server.author_code import AuthorCode, code_of, layers_of
from palestra.server.environments.awaiting import is_service_call
from palestra.server.environments.parameters import ANSWER, RESPONSE
from palestra.server.judging.questions import placeholders

_JUDGE: Final = frozenset({"judge"})
_CHOOSE: Final = "choose"


def refuse_slips_in_code(function: Any, code: AuthorCode, name: str) -> None:
    """Raise ConfigError when the method `name` has such a slip."""
    if code.tree is None:
        return
    own_code = code_of(function)
    names = frozenset((ANSWER, *(() if own_code is None else own_code.co_varnames)))
    constants = getattr(layers_of(function)[-1], "__globals__", {})
    for node in ast.walk(code.tree):
        if missing := next(filter(names.__contains__, _unfilled(node, constants)), ""):
            raise ConfigError(
                f"{code.place}{name} asks the judge a question with {{{missing}}}, and gives it no "
                f"{missing}: the judge would read the placeholder",
                hint=f"add the text by its name: choose(question, labels, {missing}=…)",
            )
    if any(_compares_response(node) for node in ast.walk(code.tree)) and not _rebinds(code.tree):
        raise ConfigError(
            f"{code.place}{name} compares response with a text, and it is an object, which is equal "
            "to none",
            hint="the text of the answer is the parameter answer, or response.final_text",
        )


def _unfilled(node: ast.AST, constants: Mapping[str, Any]) -> list[str]:
    """Return the placeholders in the question of a call of `self.judge.choose` that no argument
    fills; none where the question is not known before the run.
    """
    if not (isinstance(node, ast.Call) and is_service_call(node, _JUDGE) and node.args):
        return []
    if not isinstance(node.func, ast.Attribute) or node.func.attr != _CHOOSE:
        return []
    passages = {keyword.arg for keyword in node.keywords}
    if None in passages:  # `**passages` may have every name
        return []
    question = node.args[0]
    if isinstance(question, ast.Name):
        text = constants.get(question.id)
    else:
        text = question.value if isinstance(question, ast.Constant) else None
    return (
        [name for name in placeholders(text) if name not in passages]
        if isinstance(text, str)
        else []
    )


def _compares_response(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    pairs = zip(node.ops, sides[:-1], sides[1:], strict=True)
    return any(
        (isinstance(op, ast.Eq | ast.NotEq) and (_is_response(first) or _is_response(second)))
        or (isinstance(op, ast.In | ast.NotIn) and _is_response(second))
        for op, first, second in pairs
    )


def _is_response(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == RESPONSE


def _rebinds(tree: ast.AST) -> bool:
    """Whether the code gives the name `response` another value."""
    return any(
        isinstance(node, ast.Name) and node.id == RESPONSE and isinstance(node.ctx, ast.Store)
        for node in ast.walk(tree)
    )

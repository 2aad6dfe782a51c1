"""Refuse mistakes in an author's methods that raise no error but give wrong rewards, by the code:

- a question to the judge with a placeholder, and no passages: the judge reads `{answer}`;
- the `response`, an object, compared with a text: the two are never equal.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

from palestra.errors import ConfigError
from palestra.server.author_code import AuthorCode, bound_once, code_of, compared_pairs, layers_of
from palestra.server.environments.async_calls import is_service_call
from palestra.server.environments.parameters import ANSWER, RESPONSE

_JUDGE: Final = frozenset({"judge"})
_CHOOSE: Final = "choose"
_PLACEHOLDER: Final = re.compile(r"(?<![\w\\}{])\{(\w+)\}(?!\})")
"""A placeholder. No LaTeX, and no doubled brace."""


def refuse_slips_in_code(
    function: Any, code: AuthorCode, name: str, filled_names: frozenset[str]
) -> None:
    """Raise ConfigError when the method `name` has such a mistake. `filled_names`: the parameters that
    Palestra fills.
    """
    own_code = code_of(function)
    if code.tree is None or own_code is None:
        return
    variables = frozenset((*own_code.co_varnames, *own_code.co_cellvars, *own_code.co_freevars))
    parameters = frozenset(
        own_code.co_varnames[: own_code.co_argcount + own_code.co_kwonlyargcount]
    )
    known_texts = getattr(layers_of(function)[-1], "__globals__", {})
    constants = {name: text for name, text in known_texts.items() if name not in variables}
    nodes = list(ast.walk(code.tree))
    for node in nodes:
        unfilled = _unfilled(node, constants)
        if missing := next((text for text in unfilled if text in {ANSWER, *parameters}), ""):
            raise ConfigError(
                f"{code.place}{name} asks the judge a question with {{{missing}}}, and gives it no "
                f"{missing}: the judge would read the placeholder",
                hint=f"add the text by its name: choose(question, labels, {missing}=…)",
            )
    if RESPONSE not in parameters & filled_names & bound_once(nodes):
        return
    if any(_compares_response(node, parameters) for node in nodes):
        raise ConfigError(
            f"{code.place}{name} compares response with a text: response is an object, so it never "
            "equals one",
            hint="the text of the answer is the parameter answer, or response.final_text",
        )


def _unfilled(node: ast.AST, constants: Mapping[str, Any]) -> list[str]:
    """Return the placeholders in the question of a call of `self.judge.choose` without passages; none
    where the question is not known before the run.
    """
    if not (isinstance(node, ast.Call) and is_service_call(node, _JUDGE) and node.args):
        return []
    if not isinstance(node.func, ast.Attribute) or node.func.attr != _CHOOSE or node.keywords:
        return []  # with a passage, other braces may be meant as they are
    question = node.args[0]
    if isinstance(question, ast.Name):
        text = constants.get(question.id)
    else:
        text = question.value if isinstance(question, ast.Constant) else None
    return _PLACEHOLDER.findall(text) if isinstance(text, str) else []


def _compares_response(node: ast.AST, parameters: frozenset[str]) -> bool:
    for op, first, second in compared_pairs(node):
        if isinstance(op, ast.In | ast.NotIn) and _is_response(second):
            return True
        if isinstance(op, ast.Eq | ast.NotEq) and (
            (_is_response(first) and _is_text(second, parameters))
            or (_is_response(second) and _is_text(first, parameters))
        ):
            return True
    return False


def _is_text(node: ast.expr, parameters: frozenset[str]) -> bool:
    """Whether an expression is a text, or a field of the row."""
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.Name(id=name):
            return name in parameters and name != RESPONSE
        case ast.Subscript(value=ast.Name(id=name)):
            return name in parameters
        case _:
            return False


def _is_response(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == RESPONSE

"""Refuse calls of the judge and the sandbox whose result is used without `await`, by the code."""

import ast
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, NoReturn

from palestra.errors import ConfigError, VerifierError
from palestra.server.author_code import (
    FUNCTION_TREES,
    AuthorCode,
    FunctionTree,
    bound_once,
    place_of,
)

_SERVICES: Final = frozenset({"judge", "sandbox"})
_CONVERSIONS: Final = frozenset({"bool", "float", "int", "str"})
_OF_COROUTINES: Final = frozenset(dir(Coroutine))
_USES: Final = (ast.UnaryOp, ast.Compare, ast.BinOp)
AWAIT: Final = "write async def, and await the call, such as: return await self.judge.same(…)"


def refuse_coroutine(value: Any, where: str) -> None:
    """Raise VerifierError when `value`, which `verify` returned, is the call of an async function
    that nobody awaited.
    """
    if inspect.iscoroutine(value):
        name = value.__qualname__
        value.close()  # else Python would print a RuntimeWarning, too
        raise VerifierError(
            f"{where} returned a call of {name} that was not awaited, and not its result",
            hint=AWAIT,
        )


def refuse_judge(function: Callable[..., Any]) -> NoReturn:
    """Raise VerifierError: a plain `verify` in a worker process asks for the judge."""
    raise VerifierError(
        f"{place_of(function)}a plain verify has no judge: its methods are awaited", hint=AWAIT
    )


def refuse_unawaited(code: AuthorCode, name: str, *, has_judge: bool) -> None:
    """Raise ConfigError when the code of an author's method uses a call of `self.judge` or `self.sandbox` as if
    it were the result.

    `has_judge`: whether a call of the judge could be awaited elsewhere. It could not where the method
    runs in a worker process that has no judge.
    """
    if code.tree is None:
        return
    calls = _unawaited(code.tree) if has_judge else _judge_calls(code.tree)
    if (call := next(calls, None)) is not None:
        raise ConfigError(
            f"{code.place}{name} uses {ast.unparse(call.func)}(…) without await: what it "
            "uses is not the result",
            hint=f"write async def, and await the call: await {ast.unparse(call.func)}(…)",
        )


def _judge_calls(tree: FunctionTree) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if is_service_call(node, frozenset({"judge"})) and isinstance(node, ast.Call):
            yield node
    yield from _unawaited(tree)


def _unawaited(tree: FunctionTree) -> Iterator[ast.Call]:
    """Yield calls of services where a value is needed, not an awaitable."""
    scopes = (
        node for node in ast.walk(tree) if isinstance(node, FUNCTION_TREES) and node is not tree
    )
    inner = {id(node) for scope in scopes for node in ast.walk(scope)}
    is_async = isinstance(tree, ast.AsyncFunctionDef)
    unawaited = _unawaited_calls(tree)
    for node in ast.walk(tree):
        for value in _values_used(node, is_async=is_async and id(node) not in inner):
            for result in _results(value):
                if is_service_call(result):
                    yield result
                elif isinstance(result, ast.Name) and result.id in unawaited:
                    yield unawaited[result.id]


def _unawaited_calls(tree: FunctionTree) -> dict[str, ast.Call]:
    """Return the calls of services that were not awaited, by the names that hold nothing else."""
    certain_names = bound_once(ast.walk(tree))
    unawaited: dict[str, ast.Call] = {}
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ) if name in certain_names and isinstance(value, ast.Call) and is_service_call(value):
                unawaited[name] = value
            case _:
                pass
    return unawaited


def _values_used(node: ast.AST, *, is_async: bool) -> Iterator[Any]:
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        yield node.test
    elif isinstance(node, ast.BoolOp):
        yield from node.values[:-1]  # the last one may be the result
    elif isinstance(node, _USES):
        if not isinstance(node, ast.Compare) or not all(
            isinstance(op, ast.Is | ast.IsNot) for op in node.ops
        ):
            yield from ast.iter_child_nodes(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from node.args if node.func.id in _CONVERSIONS else ()
    elif isinstance(node, ast.Attribute):
        if node.attr not in _OF_COROUTINES:
            yield node.value
    elif isinstance(node, ast.Subscript) or (isinstance(node, ast.Return) and is_async):
        yield node.value


def _results(node: ast.expr | None) -> Iterator[Any]:
    """Yield the expressions whose value `node` may have."""
    if isinstance(node, ast.BoolOp):
        yield from _results(node.values[-1])
    elif isinstance(node, ast.IfExp):
        yield from (*_results(node.body), *_results(node.orelse))
    else:
        yield node


def is_service_call(node: object, services: frozenset[str] = _SERVICES) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr in services
        and isinstance(node.func.value.value, ast.Name)
        and node.func.value.value.id == "self"
    )

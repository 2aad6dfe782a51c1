"""Refuse calls of async functions whose result is used without `await`, by the code: of the judge, of
the sandbox, and of the author's own.
"""

import ast
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NoReturn

from palestra.errors import ConfigError, VerifierError
from palestra.server.author_code import (
    FUNCTION_TREES,
    AuthorCode,
    FunctionTree,
    bound_once,
    names_bound_by,
    place_of,
)
from palestra.server.authors_errors import unawaited_call
from palestra.server.environments.async_calls import IsCoroutine, is_service_call, results_of

_VALUE_FUNCTIONS: Final = frozenset(
    {
        "abs",
        "bool",
        "dict",
        "enumerate",
        "float",
        "int",
        "len",
        "list",
        "round",
        "set",
        "str",
        "tuple",
    }
)
"""Functions of Python whose arguments are values, and no awaitables."""
_ITEM_FUNCTIONS: Final = frozenset({"all", "any", "max", "min", "sorted", "sum"})
"""Functions of Python that need the items of their arguments as values."""
_OF_COROUTINES: Final = frozenset(dir(Coroutine))
AWAIT_JUDGE: Final = "write async def, and await the call, such as: return await self.judge.same(…)"


@dataclass(frozen=True, slots=True)
class MethodUse:
    """What happens with what a method returns."""

    is_awaited: bool = True
    """False: Palestra never awaits it, as of `gold`."""
    is_final: bool = False
    """Whether Palestra gets it, and no code of the author changes it before."""


BY_THE_AUTHOR: Final = MethodUse()


def refuse_coroutine(value: Any, where: str) -> None:
    """Raise VerifierError when `value`, which `verify` returned, is the call of an async function
    that nobody awaited.
    """
    if call := unawaited_call(value):
        raise VerifierError(f"{where} returned {call}", hint=AWAIT_JUDGE)


def refuse_judge(function: Callable[..., Any]) -> NoReturn:
    """Raise VerifierError: a plain `verify` in a worker process asks for the judge."""
    raise VerifierError(
        f"{place_of(function)}a plain verify has no judge: its methods are awaited",
        hint=AWAIT_JUDGE,
    )


def refuse_unawaited(
    code: AuthorCode,
    name: str,
    *,
    has_judge: bool,
    is_coroutine: IsCoroutine = is_service_call,
    use: MethodUse = BY_THE_AUTHOR,
    outer_names: frozenset[str] = frozenset(),
) -> None:
    """Raise ConfigError when the code of an author's function uses the call of an async function as if it
    were the result.

    `has_judge`: whether a call of the judge could be awaited elsewhere. It could not where the method
    runs in a worker process that has no judge. `outer_names`: of the module and of the functions around,
    which may hide a function of Python.
    """
    if code.tree is None:
        return
    misuses = _Calls(code.tree, is_coroutine, use, outer_names).misuses()
    if not has_judge:
        misuses = chain(_judge_calls(code.tree), misuses)
    call, verb, effect = next(misuses, (None, "", ""))
    if call is None:
        return
    label = f"{ast.unparse(call.func)}(…)"
    if verb == _NESTED[0]:
        raise ConfigError(
            f"{code.place}{name} {verb} await {label}: {effect}",
            hint=f"await the call in {ast.unparse(call.func)}, where it is returned",
        )
    if not use.is_awaited:
        hint = f"{name} cannot be async: write {ast.unparse(call.func)} without async"
    elif isinstance(code.tree, ast.FunctionDef):
        hint = f"write async def {name}, and await the call: await {label}"
    else:
        hint = f"write async def, and await the call: await {label}"
    raise ConfigError(f"{code.place}{name} {verb} {label} without await: {effect}", hint=hint)


_Misuse = tuple[ast.Call, str, str]
"""A call, what the code does with it, and why that is wrong."""
_USES: Final = ("uses", "what it uses is not the result")
_NESTED: Final = ("uses the result of", "it is a call that was not awaited")
_DROPS: Final = ("calls", "none of its code runs")


def _judge_calls(tree: FunctionTree) -> Iterator[_Misuse]:
    for node in ast.walk(tree):
        if is_service_call(node, frozenset({"judge"})) and isinstance(node, ast.Call):
            yield (node, *_USES)


class _Calls:
    """The calls of async functions in one function."""

    def __init__(
        self,
        tree: FunctionTree,
        is_coroutine: IsCoroutine,
        use: MethodUse,
        outer_names: frozenset[str],
    ) -> None:
        self._tree = tree
        self._is_coroutine = is_coroutine
        self._use = use
        self._nodes = list(ast.walk(tree))
        self._certain_names = bound_once(self._nodes)
        self._bound_names = outer_names.union(
            name for node in self._nodes for name in names_bound_by(node) if node is not tree
        )
        scopes = (node for node in self._nodes if isinstance(node, FUNCTION_TREES))
        self._inner = {
            id(node) for scope in scopes if scope is not tree for node in ast.walk(scope)
        }
        self._kept = self._kept_calls()

    def misuses(self) -> Iterator[_Misuse]:
        """Yield those where a value is needed, not an awaitable, and those that nothing can await."""
        uses = [value for node in self._nodes for value in self._values_used(node)]
        results = [result for value in uses for result in results_of(value)]
        names = [node for node in self._nodes if isinstance(node, ast.Name)]
        loads = [node for node in names if isinstance(node.ctx, ast.Load)]
        used = {id(result) for result in results if isinstance(result, ast.Name)}
        # It may be awaited elsewhere, such as: call = self.ok(); await call; if call: …
        passed_on = {node.id for node in loads if id(node) not in used}
        for result in results:
            if isinstance(result, ast.Name):
                if result.id in self._kept and result.id not in passed_on:
                    yield (self._kept[result.id], *_USES)
            elif self._is_coroutine(result):
                yield (_call_in(result), *(_NESTED if isinstance(result, ast.Await) else _USES))
        for node in self._nodes:
            if isinstance(node, ast.Expr) and self._is_coroutine(node.value):
                is_nested = isinstance(node.value, ast.Await)
                yield (_call_in(node.value), *(_NESTED if is_nested else _DROPS))
        for name in self._kept.keys() - {node.id for node in loads}:
            yield (self._kept[name], *_DROPS)

    def _kept_calls(self) -> dict[str, ast.Call]:
        """Return the calls that were not awaited, by the names that hold nothing else."""
        unawaited: dict[str, ast.Call] = {}
        for node in self._nodes:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ) if name in self._certain_names and self._is_coroutine(value):
                    unawaited[name] = _call_in(value)
                case _:
                    pass
        return unawaited

    def _values_used(self, node: ast.AST) -> Iterator[ast.expr | None]:
        match node:
            case ast.Call(func=ast.Name(id=name), args=arguments):
                yield from self._used_by(name, arguments)
            case ast.Return(value=value) if id(node) not in self._inner:
                yield from self._returned(value)
            case ast.Lambda(body=body) if node is self._tree:
                yield from self._returned(body)
            case _:
                yield from _tested_by(node)
                yield from _operands_of(node)
                yield from _unpacked_by(node)

    def _used_by(self, function: str, arguments: list[ast.expr]) -> Iterator[ast.expr]:
        """Yield the arguments of a function of Python that it uses as values, and their items."""
        if function in self._bound_names:
            return
        if function in _VALUE_FUNCTIONS | _ITEM_FUNCTIONS:
            yield from arguments
        if function in _ITEM_FUNCTIONS:
            for argument in arguments:
                match argument:
                    case ast.GeneratorExp() | ast.ListComp() | ast.SetComp():
                        yield argument.elt
                    case ast.List() | ast.Tuple() | ast.Set():
                        yield from argument.elts
                    case _:
                        pass

    def _returned(self, value: ast.expr | None) -> Iterator[ast.expr | None]:
        """Yield the parts of a returned value that must be values: Palestra awaits the value itself,
        once, and nothing in it.
        """
        is_async = isinstance(self._tree, ast.AsyncFunctionDef)
        for result in results_of(value):
            if self._use.is_final:
                yield from _parts_of(result)
            is_awaited_once = self._use.is_awaited and not is_async
            is_needed = self._use.is_final or (is_async and is_service_call(result))
            if is_needed and not is_awaited_once:
                yield result


def _tested_by(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of which a node uses the truth."""
    match node:
        case (
            ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test)
        ):
            yield test
        case ast.BoolOp(values=values):
            yield from values[:-1]  # the last one may be the result
        case _:
            pass


def _operands_of(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that a node computes with, compares, or of which it takes a part."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=comparators):
            is_identity = all(isinstance(operator, ast.Is | ast.IsNot) for operator in operators)
            for side in (left, *comparators):
                if not (is_identity and isinstance(side, ast.Name)):
                    yield side
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.UnaryOp(operand=value) | ast.AugAssign(value=value) | ast.Subscript(value=value):
            yield value
        case ast.Attribute(value=value, attr=name) if name not in _OF_COROUTINES:
            yield value
        case ast.FormattedValue(value=value):
            yield value
        case _:
            pass


def _unpacked_by(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of which a node needs the items."""
    match node:
        case ast.For(iter=value) | ast.comprehension(iter=value) | ast.Starred(value=value):
            yield value
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value):
            yield value
        case _:
            pass


def _parts_of(node: ast.expr | None) -> Iterator[ast.expr]:
    """Yield the items of a dict, list, tuple or set that is written out, also of those inside."""
    match node:
        case (
            ast.Dict(values=items)
            | ast.List(elts=items)
            | ast.Tuple(elts=items)
            | ast.Set(elts=items)
        ):
            for item in items:
                yield item
                yield from _parts_of(item)
        case _:
            pass


def _call_in(node: Any) -> ast.Call:
    """Return the call of an expression that is a coroutine: itself, or what it awaits."""
    call = node.value if isinstance(node, ast.Await) else node
    assert isinstance(call, ast.Call)  # noqa: S101  # by the kinds of coroutines
    return call

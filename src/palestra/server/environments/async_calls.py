"""Which calls in an author's code return a coroutine, by the code and by what its names hold.

A call counts only where that is certain: of an async method of the class, of an async function of the
module or of a module that it imports, and of a plain function that returns nothing but such calls.
"""

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, final

from palestra.server.author_code import (
    AuthorCode,
    AuthorFiles,
    FunctionTree,
    code_of,
    layers_of,
    names_bound_by,
    nodes_of_scope,
)
from palestra.server.method_forms import SELF

_SERVICES: Final = frozenset({"judge", "sandbox"})
_REBIND: Final = frozenset({"setattr", "delattr", "__dict__", "__setattr__", "vars"})
"""Names of what may replace a method of one object under a name that the code does not show."""

IsCoroutine = Callable[[object], bool]
"""Whether the value of an expression is certain to be a coroutine."""


def is_service_call(node: object, services: frozenset[str] = _SERVICES) -> bool:
    """Whether an expression calls a method of `self.judge` or `self.sandbox`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr in services
        and isinstance(node.func.value.value, ast.Name)
        and node.func.value.value.id == SELF
    )


def results_of(node: ast.expr | None) -> Iterator[ast.expr | None]:
    """Yield the expressions whose value `node` may have."""
    if isinstance(node, ast.BoolOp):
        yield from results_of(node.values[-1])
    elif isinstance(node, ast.IfExp):
        yield from (*results_of(node.body), *results_of(node.orelse))
    else:
        yield node


@final
class AsyncCalls:
    """The async functions of one environment's code. `methods`: the code of each method of its class
    `cls`, by name.
    """

    def __init__(
        self, cls: type[Any], methods: Mapping[str, AuthorCode], files: AuthorFiles
    ) -> None:
        self._cls = cls
        self._files = files
        self._trees = [code.tree for code in methods.values() if code.tree is not None]
        nodes = [node for tree in self._trees for node in ast.walk(tree)]
        self._replaced = frozenset(
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        )
        has_own_lookup = any("__getattribute__" in vars(base) for base in cls.__mro__[:-1])
        self._has_fixed_methods = not has_own_lookup and not any(
            _name_in(node) in _REBIND for node in nodes
        )
        self._returning: dict[CodeType, bool] = {}

    def in_code_of(self, function: Any) -> IsCoroutine:
        """Return what says of the expressions in a function whether they are a coroutine."""
        tree = self._files.code_of(function).tree
        innermost = layers_of(function)[-1]
        if tree is None or not isinstance(innermost, FunctionType):
            return is_service_call
        inner_nodes = (node for node in ast.walk(tree) if node is not tree)
        bound_names = Counter(name for node in inner_nodes for name in names_bound_by(node))
        local_names = frozenset((*bound_names, *innermost.__code__.co_freevars))
        knows_self = (
            any(tree is method for method in self._trees)  # of a function, it may be any object
            and bound_names[SELF] == 1
            and _first_parameter(tree) == SELF
            and innermost.__name__ != "__call__"  # of an object that is called as a method
            and self._has_fixed_methods
        )
        module_names = innermost.__globals__

        def called(node: ast.expr) -> Any:
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=method) if name == SELF:
                    return self._method(method) if knows_self else None
                case ast.Name(id=name) if name not in local_names:
                    return module_names.get(name)
                case ast.Attribute(value=ast.Name(id=name), attr=part) if name not in local_names:
                    module = module_names.get(name)
                    return vars(module).get(part) if isinstance(module, ModuleType) else None
                case _:
                    return None

        def is_coroutine(node: object) -> bool:
            match node:
                case ast.Call(func=func):
                    target = called(func)
                    return is_service_call(node) or _is_async(target) or self._returns_one(target)
                case ast.Await(value=ast.Call(func=func)):
                    target = called(func)
                    return _is_async(target) and self._returns_one(target)
                case _:
                    return False

        return is_coroutine

    def functions_used(self, functions: Iterable[Any]) -> Iterator[FunctionType]:
        """Yield the functions that the code of `functions` names, in the same file, and those that
        these name. Each once.
        """
        waiting, seen_codes = [*functions], set[CodeType | None]()
        while waiting:
            function = layers_of(waiting.pop())[-1]
            tree = self._files.code_of(function).tree
            if tree is None or not isinstance(function, FunctionType):
                continue
            for node in ast.walk(tree):
                used = function.__globals__.get(node.id) if isinstance(node, ast.Name) else None
                code = code_of(used) if isinstance(used, FunctionType) else None
                same_file = code is not None and code.co_filename == function.__code__.co_filename
                if isinstance(used, FunctionType) and same_file and code not in seen_codes:
                    seen_codes.add(code)
                    waiting.append(used)
                    yield used

    def _method(self, name: str) -> Any:
        """Return the function that `self.NAME` calls; None where it is not certain."""
        if name in self._replaced:
            return None
        member = inspect.getattr_static(self._cls, name, None)
        return member.__func__ if isinstance(member, staticmethod | classmethod) else member

    def _returns_one(self, function: Any) -> bool:
        """Whether a function returns a coroutine each time, as far as its code is known."""
        if not isinstance(function, FunctionType):
            return False
        code = function.__code__
        if code not in self._returning:
            self._returning[code] = False  # while it is being found, of one that calls itself
            self._returning[code] = self._is_returned(function)
        return self._returning[code]

    def _is_returned(self, function: FunctionType) -> bool:
        tree = self._files.code_of(function).tree
        if tree is None or isinstance(tree, ast.Lambda) or hasattr(function, "__wrapped__"):
            return False
        if inspect.isgeneratorfunction(function):
            return False
        returned = [node for node in nodes_of_scope(tree.body) if isinstance(node, ast.Return)]
        is_coroutine = self.in_code_of(function)
        return isinstance(tree.body[-1], ast.Return) and all(
            is_coroutine(value) for node in returned for value in results_of(node.value)
        )


def _is_async(function: Any) -> bool:
    """Whether a call of `function` itself returns a coroutine, whatever it wraps."""
    return isinstance(function, FunctionType) and bool(
        function.__code__.co_flags & inspect.CO_COROUTINE
    )


def _first_parameter(tree: FunctionTree) -> str:
    parameters = [*tree.args.posonlyargs, *tree.args.args]
    return parameters[0].arg if parameters else ""


def _name_in(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""

"""Read the code of an author's function: where it is, its syntax tree, and the texts in it.

A function may be wrapped: by a decorator, as a static or class method, as a partial, or as an object
that can be called. What is read is the function that runs in the end.
"""

import ast
import functools
import inspect
import linecache
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, final

from palestra.system import file_and_line

FunctionTree = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

FUNCTION_TREES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_WITH_FUNC: Final = (
    functools.partial,
    functools.partialmethod,
    functools.cached_property,
    functools.singledispatchmethod,
)
_OWN_SCOPES: Final = (*FUNCTION_TREES, ast.ClassDef)
_MOST_LAYERS: Final = 100
"""Layers that are looked into. Some objects have every attribute, so that there is no last one."""


def layers_of(value: Any) -> list[Any]:
    """Return `value` and what it wraps, layer by layer."""
    layers = [value]
    while len(layers) < _MOST_LAYERS and (inner := _wrapped_by(layers[-1])) is not None:
        layers.append(inner)
    return layers


def _wrapped_by(value: Any) -> Any:
    """Return the function or object that `value` wraps; None when it wraps none."""
    if isinstance(value, staticmethod | classmethod | MethodType):
        return value.__func__
    if isinstance(value, _WITH_FUNC):
        return value.func
    if isinstance(value, property):
        return value.fget
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is not None or isinstance(value, FunctionType | type):
        return wrapped
    called = getattr(type(value), "__call__", None)  # noqa: B004  # of an object
    return called if isinstance(called, FunctionType) else None


def code_of(function: Any) -> CodeType | None:
    """Return the code object of the function that runs in the end; None when it has none."""
    code = getattr(layers_of(function)[-1], "__code__", None)
    return code if isinstance(code, CodeType) else None


def outer_names_of(function: Any) -> frozenset[str]:
    """Return the names that the function that runs in the end has of its module, and of the functions
    around it. Those of Python itself are not among them.
    """
    innermost = layers_of(function)[-1]
    if not isinstance(innermost, FunctionType):
        return frozenset()
    return frozenset((*innermost.__globals__, *innermost.__code__.co_freevars))


def place_of(subject: Any) -> str:
    """Return `FILE:LINE: `, where a function or class begins, for the beginning of a message; empty
    when it is in no file.
    """
    if isinstance(subject, type):
        with suppress(OSError, TypeError):
            line = inspect.getsourcelines(subject)[1]
            return f"{file_and_line(Path(inspect.getfile(subject)), line)}: "
        return ""
    code = code_of(subject)
    if code is None:
        return ""
    return f"{file_and_line(Path(code.co_filename), code.co_firstlineno)}: "


def function_and_line(function: Any) -> str:
    """Return `FILE:LINE in NAME`, where a function begins; empty when it has no code."""
    code = code_of(function)
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}" if code else ""


def calling_place() -> str:
    """Return `FILE:LINE` of the code that called the function that calls this one."""
    frame = sys._getframe(2)  # noqa: SLF001  # there is no public name for it
    return file_and_line(Path(frame.f_code.co_filename), frame.f_lineno)


@dataclass(frozen=True, slots=True)
class AuthorCode:
    """The code of one function."""

    place: str
    """`FILE:LINE: `, where it begins; empty when it is in no file."""
    tree: FunctionTree | None
    """None when the file cannot be read, or has several functions there."""
    texts: frozenset[str]
    """The texts that it contains, with those of the functions in it."""


@final
class AuthorFiles:
    """The files with an author's code. Each is read and parsed once."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module | None] = {}

    def code_of(self, function: Any) -> AuthorCode:
        """Return the code of the function that runs in the end."""
        code = code_of(function)
        if code is None:
            return AuthorCode("", None, frozenset())
        namespace = getattr(layers_of(function)[-1], "__globals__", {})
        module = self.tree_of(code.co_filename, namespace)
        return AuthorCode(place_of(function), _function_in(module, code), _texts_in(code))

    def place_of_attribute(self, owner: type[Any], name: str) -> str:
        """Return `FILE:LINE: `, where the body of a class sets the attribute `name`; empty when it
        does not.
        """
        module = sys.modules.get(owner.__module__)
        file = getattr(module, "__file__", None)
        tree = self.tree_of(file, vars(module)) if module is not None and file else None
        lines = [
            node.lineno
            for class_tree in _classes_in(tree, owner.__qualname__)
            for node in nodes_of_scope(class_tree.body)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
        ]
        return f"{file_and_line(Path(file), lines[-1])}: " if file and lines else ""

    def place_of_argument(self, function: Any, name: str) -> str:
        """Return `FILE:LINE: `, where a decorator of a function gets the argument `name`; empty when
        none gets it.
        """
        code, tree = code_of(function), self.code_of(function).tree
        decorators = [] if tree is None or isinstance(tree, ast.Lambda) else tree.decorator_list
        lines = [
            keyword.lineno
            for decorator in decorators
            if isinstance(decorator, ast.Call)
            for keyword in decorator.keywords
            if keyword.arg == name
        ]
        return f"{file_and_line(Path(code.co_filename), lines[0])}: " if code and lines else ""

    def tree_of(self, file: str, namespace: Mapping[str, Any]) -> ast.Module | None:
        """Return the syntax tree of a file; None when it cannot be read. `namespace`: the globals of
        its module, which may say how to read it.
        """
        if file not in self._trees:
            self._trees[file] = _parsed(file, namespace)
        return self._trees[file]


def _parsed(file: str, namespace: Mapping[str, Any]) -> ast.Module | None:
    linecache.checkcache(file)
    lines = linecache.getlines(file, dict(namespace))
    is_empty = not lines and Path(file).is_file() and Path(file).stat().st_size == 0
    try:
        return ast.parse("".join(lines)) if lines or is_empty else None
    except (SyntaxError, ValueError):  # it was changed since it was imported
        return None


def bound_once(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that these nodes bind a single time: as a parameter, or by an assignment, also in
    a function inside. Names of another scope (`global`, `nonlocal`) are not among them.
    """
    bindings = Counter(name for node in nodes for name in _binding_of(node))
    return frozenset(name for name, count in bindings.items() if count == 1)


def names_bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds: a parameter, an assignment, an import, a definition, an
    exception, a pattern.
    """
    match node:
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.alias(name=name, asname=alias):
            yield alias or name.partition(".")[0]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            pass


def _binding_of(node: ast.AST) -> Iterator[str]:
    yield from names_bound_by(node)
    if isinstance(node, ast.Global | ast.Nonlocal):
        yield from (*node.names, *node.names)  # what else binds them is not known


def compared_pairs(node: ast.AST) -> Iterator[tuple[ast.cmpop, ast.expr, ast.expr]]:
    """Yield the operators of a comparison, each with both sides; none for another node."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        yield from zip(node.ops, sides[:-1], sides[1:], strict=True)


def nodes_of_scope(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a body in the order of its lines, without those inside of its functions and
    classes.
    """
    for node in body:
        yield from _nodes_under(node)


def _nodes_under(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, _OWN_SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _nodes_under(child)


def _classes_in(module: ast.Module | None, qualified_name: str) -> list[ast.ClassDef]:
    """Return the classes of a module with a name such as `Outer.Inner` or `f.<locals>.Inner`."""
    nodes: list[ast.AST] = [] if module is None else [module]
    for part in qualified_name.split("."):
        if part != "<locals>":
            nodes = [
                child
                for node in nodes
                for child in ast.walk(node)
                if isinstance(child, _OWN_SCOPES) and getattr(child, "name", "") == part
            ]
    return [node for node in nodes if isinstance(node, ast.ClassDef)]


def _function_in(module: ast.Module | None, code: CodeType) -> FunctionTree | None:
    nodes = () if module is None else ast.walk(module)
    matches = [
        node
        for node in nodes
        if isinstance(node, FUNCTION_TREES)
        and getattr(node, "name", "<lambda>") == code.co_name
        and _first_line(node) == code.co_firstlineno
    ]
    return matches[0] if len(matches) == 1 else None


def _first_line(node: FunctionTree) -> int:
    """Return the line where a function begins, with its decorators, as its code object does."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min((node.lineno, *(decorator.lineno for decorator in decorators)))


def _texts_in(code: CodeType) -> frozenset[str]:
    own_texts = frozenset(value for value in code.co_consts if isinstance(value, str))
    inner_texts = (_texts_in(value) for value in code.co_consts if isinstance(value, CodeType))
    return own_texts.union(*inner_texts)

"""Tools of an environment: marked methods, whose JSON Schema comes from the signature."""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_type_hints, overload

from pydantic import ConfigDict, Field, create_model

from palestra.errors import ConfigError
from palestra.schema import JsonDict
from palestra.server.author_code import calling_place, layers_of, place_of
from palestra.server.method_forms import SPREAD, as_function
from palestra.server.sessions import Session

F = TypeVar(
    "F", bound="Callable[..., Any] | functools.partialmethod[Any] | classmethod[Any, ..., Any]"
)

_TOOL_MARK = "_palestra_tool"


class ToolError(Exception):
    """Raise this in a tool to reject a call: the model reads the message, and may try again.

    Any other exception is a bug of the tool. The model reads its message too, and the rollout
    continues, but the row lists the failure under `tool_failures`.
    """


@overload
def tool(method: F) -> F: ...
@overload
def tool() -> Callable[[F], F]: ...
def tool(method: F | None = None) -> F | Callable[[F], F]:
    """Mark a method of a `ResourcesServer` as a tool that the model may call.

    Its name, docstring and typed parameters become the tool's schema. A parameter annotated
    with `Session` is filled in and not shown to the model. Arguments that a `functools.partial` or
    `functools.partialmethod` fills are not shown either.

    Raises ConfigError: `method` is a class, or cannot have a mark, such as a property.
    """
    if method is None:  # @tool()
        return tool
    if not isinstance(method, type):
        with contextlib.suppress(AttributeError, TypeError):
            setattr(method, _TOOL_MARK, True)
            return method
    raise ConfigError(
        f"{calling_place()}: @tool cannot mark {method!r}",
        hint="write a method: @tool above def name(self, …), with a type for each parameter",
    )


def is_tool(member: object) -> bool:
    """Whether an attribute of a class was marked with `tool`, or wraps a method that was."""
    return any(getattr(layer, _TOOL_MARK, False) is True for layer in layers_of(member))


def tools_of(cls: type[Any]) -> dict[str, Callable[..., Any]]:
    """Return the tools of a class and its bases as functions, by name, in alphabetical order.

    Raises ConfigError: a tool cannot be called as a method, or a method without `@tool` replaces a
    tool of a base class.
    """
    names = {name for owner in cls.__mro__ for name in vars(owner) if not name.startswith("__")}
    return {name: _tool_of(cls, name) for name in sorted(names) if _has_tool(cls, name)}


def _has_tool(cls: type[Any], name: str) -> bool:
    owners = [owner for owner in cls.__mro__ if name in vars(owner)]
    member = vars(owners[0])[name]
    if is_tool(member):
        return True
    replaced = next((owner for owner in owners[1:] if is_tool(vars(owner)[name])), None)
    if replaced is not None and member is not None:
        raise ConfigError(
            f"{place_of(member) or place_of(owners[0])}{owners[0].__name__}.{name} replaces the tool {name} of "
            f"{replaced.__name__}, and is no tool itself",
            hint=f"write @tool above it; to have no such tool, write {name} = None",
        )
    if _hides_tool(member, name):
        raise ConfigError(
            f"{place_of(member)}{owners[0].__name__}.{name} is a tool in a function of another "
            "decorator, which does not say so",
            hint="write @tool above that decorator, or functools.wraps into it",
        )
    return False


def _hides_tool(member: object, name: str) -> bool:
    """Whether `member` is a function that a decorator made around the tool `name`."""
    cells = getattr(member, "__closure__", None) or ()
    for cell in cells:
        with contextlib.suppress(ValueError):  # an empty cell
            inside = cell.cell_contents
            if getattr(inside, "__name__", "") == name and is_tool(inside):
                return True
    return False


def _tool_of(cls: type[Any], name: str) -> Callable[..., Any]:
    function = as_function(cls, name)
    function.__dict__[_TOOL_MARK] = True
    return function


def arguments_model(method: Callable[..., Any]) -> Any:
    """Return a pydantic model of the tool's parameters, without `self` and the session."""
    hints = get_type_hints(method, include_extras=True)
    notes = _parameter_notes(inspect.getdoc(method) or "")
    fields: JsonDict = {}
    for name, parameter in _parameters_of(method):
        kind = hints.get(name, Any)
        if kind is Session:
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[name] = (kind, Field(default, description=notes.get(name)))
    return create_model(
        f"{getattr(method, '__name__', 'tool')}_arguments",
        __config__=ConfigDict(extra="forbid"),
        **fields,
    )


def _parameters_of(method: Callable[..., Any]) -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield the named parameters of a tool, without `self`."""
    for name, parameter in inspect.signature(method).parameters.items():
        if name != "self" and parameter.kind not in SPREAD:
            yield name, parameter


def untyped_parameters(method: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters of a tool without a type, each with what to write for it, such as
    `count: int = 1`.
    """
    return {
        name: f"{name}: {_likely_type(parameter.default)}"
        for name, parameter in _parameters_of(method)
        if parameter.annotation is parameter.empty
    }


def spread_parameters(method: Callable[..., Any]) -> list[str]:
    """Return `*args` and `**kwargs` of a tool, which the model cannot fill, as the author named them."""
    return [
        str(parameter).partition(":")[0]
        for parameter in inspect.signature(method).parameters.values()
        if parameter.kind in SPREAD
    ]


def _likely_type(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "str"
    kind = "str | None" if default is None else type(default).__name__
    return f"{kind} = {default!r}"


def has_description(method: Callable[..., Any]) -> bool:
    """Whether the model sees what a tool does."""
    return bool(_summary(inspect.getdoc(method) or ""))


def tool_schema(method: Callable[..., Any]) -> JsonDict:
    """Return the tool as a Responses API `tools` entry."""
    schema = arguments_model(method).model_json_schema()
    schema.pop("title", None)
    for prop in schema.get("properties", {}).values():
        prop.pop("title", None)
    schema.setdefault("properties", {})
    schema.setdefault("required", [])
    schema["additionalProperties"] = False
    return {
        "type": "function",
        "name": getattr(method, "__name__", "tool"),
        "description": _summary(inspect.getdoc(method) or ""),
        "parameters": schema,
        # Strict schemas may not have optional properties: providers reject the request.
        "strict": set(schema["required"]) == set(schema["properties"]),
    }


def type_problem(method: Callable[..., Any]) -> str:
    """Return which parameter of a tool has a type without a schema, and why; empty without one."""
    try:
        tool_schema(method)
    except Exception as error:
        annotations = getattr(inspect.unwrap(method), "__annotations__", {})
        for name, annotation in annotations.items():
            if problem := _annotation_problem(method, name, annotation):
                return f"{'its result' if name == 'return' else name}: {problem}"
        return f"{type(error).__name__}: {error}"
    return ""


def _annotation_problem(method: Callable[..., Any], name: str, annotation: Any) -> str:
    def parameter_alone() -> None: ...

    parameter_alone.__annotations__ = {name: annotation}
    namespace = getattr(inspect.unwrap(method), "__globals__", {})
    try:
        kind = get_type_hints(parameter_alone, namespace, include_extras=True)[name]
        if name != "return" and kind is not Session:
            fields: JsonDict = {name: (kind, ...)}
            create_model("arguments", **fields).model_json_schema()
    except Exception as error:
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        return f"{text or annotation}, {type(error).__name__}: {str(error).splitlines()[0]}"
    return ""


_NOTE = re.compile(r"^\s*(?::param\s+)?(\w+)\s*:\s*(.+)$")


def _summary(docstring: str) -> str:
    return docstring.split("\n\n", 1)[0].replace("\n", " ").strip()


def _parameter_notes(docstring: str) -> dict[str, str]:
    """Return the parameter descriptions: the docstring's lines `name: what it means` after the
    summary.
    """
    _, _, notes_text = docstring.partition("\n\n")
    notes = (_NOTE.match(line) for line in notes_text.splitlines())
    return {match[1]: match[2] for match in notes if match}

"""Tools of an environment: marked methods, whose JSON Schema comes from the signature."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, get_type_hints, overload

from pydantic import ConfigDict, Field, create_model

from palestra.schema import JsonDict
from palestra.server.sessions import Session

F = TypeVar("F", bound=Callable[..., Any])

_TOOL_MARK = "_palestra_tool"
_SPREAD: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


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
    with `Session` is filled in and not shown to the model.
    """
    if method is None:  # @tool()
        return tool
    setattr(method, _TOOL_MARK, True)
    return method


def is_tool(method: object) -> bool:
    """Whether the method was marked with `tool`."""
    return getattr(method, _TOOL_MARK, False) is True


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
        if name != "self" and parameter.kind not in _SPREAD:
            yield name, parameter


def untyped_parameters(method: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters of a tool without a type, each with what to write for it, such as
    `count: int = 1`. Of `*args` and `**kwargs` the model sees nothing, whatever their type is.
    """
    untyped = {
        name: f"{name}: {_likely_type(parameter.default)}"
        for name, parameter in _parameters_of(method)
        if parameter.annotation is parameter.empty
    }
    return untyped | {
        f"each of {parameter}".partition(":")[0]: f"{name}: str"
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.kind in _SPREAD
    }


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

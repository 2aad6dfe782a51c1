"""Refuse calls of the judge and the sandbox that can only fail, by the code, before a model is asked:
methods and parameters that do not exist, and arguments that do not fit.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.sandbox import Sandbox
from palestra.server.author_code import AuthorCode
from palestra.server.environments.async_calls import is_service_call
from palestra.server.environments.environment import Environment
from palestra.server.environments.services import EnvironmentJudge
from palestra.server.method_forms import SELF

_SERVICES: Final[Mapping[str, type[Any]]] = {"judge": EnvironmentJudge, "sandbox": Sandbox}
_CALLS: Final = {
    "judge.same": "await self.judge.same(target, answer)",
    "judge.choose": 'await self.judge.choose("Is {answer} polite?", ["yes", "no"], answer=answer)',
    "sandbox.run": "await self.sandbox.run(Program.python(code), stdin=text, "
    "limits=Limits(wall_s=10))",
}
"""How to call what authors call most, by service and method."""


def refuse_wrong_calls(cls: type[Environment], code: AuthorCode, name: str) -> None:
    """Raise ConfigError when the code of the method `name` of `cls` calls a service as it cannot be
    called.
    """
    for node in () if code.tree is None else ast.walk(code.tree):
        for service, problem, hint in _problems(node):
            is_own = inspect.getattr_static(cls, service) is vars(Environment)[service]
            if is_own:  # else the author has an attribute of this name
                raise ConfigError(f"{code.place}{name} {problem}", hint=hint)


def _problems(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield the service, what is wrong about `node`, and what to write."""
    match node:
        case ast.Attribute(
            value=ast.Attribute(value=ast.Name(id=owner), attr=service), attr=method, ctx=ast.Load()
        ) if owner == SELF and service in _SERVICES:
            methods = [member for member in dir(_SERVICES[service]) if not member.startswith("_")]
            if not hasattr(_SERVICES[service], method):
                near = did_you_mean(method, methods)
                yield (
                    service,
                    f"uses self.{service}.{method}, which does not exist{near}",
                    f"its methods: {', '.join(methods)}; such as: {_example(service)}",
                )
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=service)) if (
            owner == SELF and service in _SERVICES
        ):
            yield (
                service,
                f"calls self.{service}(…), which is no function",
                f"such as: {_example(service)}",
            )
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=service), attr=method)):
            function = getattr(_SERVICES.get(service), method, None)
            if (
                callable(function)
                and is_service_call(node)
                and (problem := _misfit(node, inspect.signature(function)))
            ):
                label = f"{service}.{method}"
                yield (
                    service,
                    f"calls self.{label} with {problem}",
                    f"such as: {_CALLS[label]}" if label in _CALLS else "",
                )
        case _:
            pass


def _example(service: str) -> str:
    return next(text for label, text in reversed(_CALLS.items()) if label.startswith(service))


def _misfit(call: ast.Call, signature: inspect.Signature) -> str:
    """Return why the arguments of a call do not fit a method; empty where they may."""
    parameters = list(signature.parameters.values())[1:]
    names = [
        parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD
    ]
    takes_any = len(names) < len(parameters)
    keywords = [keyword.arg for keyword in call.keywords]
    for keyword in keywords:
        if keyword is not None and keyword not in names and not takes_any:
            return (
                f"{keyword}=…, which it does not take{did_you_mean(keyword, names)}; its parameters "
                f"are {', '.join(names)}"
            )
    if None in keywords or any(isinstance(argument, ast.Starred) for argument in call.args):
        return ""
    values = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    try:
        bound = signature.bind(None, *call.args, **values).arguments
    except TypeError as error:
        return f"arguments that do not fit ({error}); its parameters are {', '.join(names)}"
    match bound.get("labels"):
        case ast.Constant(value=str()) | ast.JoinedStr():
            return "labels that are one text, and they are a list of texts"
        case _:
            return ""

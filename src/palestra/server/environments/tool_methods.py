"""Turn an author's tool into a method of the server, with the tool's parameters and the session."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, get_type_hints

from palestra.server.sessions import Session

_SESSION: Final = "palestra_session"


def with_session(
    function: Callable[..., Any], call: Callable[[Session, Mapping[str, Any]], Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    """Return a method with the parameters of `function` (without `self`) and the session.

    `call`: gets the session and the other arguments.
    """

    @functools.wraps(function)
    async def run(**arguments: Any) -> Any:
        return await call(arguments.pop(_SESSION), arguments)

    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    keyword_only = [
        _keyword_only(parameter, hints)
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_POSITIONAL
    ]
    session = inspect.Parameter(_SESSION, inspect.Parameter.KEYWORD_ONLY, annotation=Session)
    run.__dict__["__signature__"] = inspect.Signature([session, *keyword_only])
    run.__annotations__ = {**hints, _SESSION: Session}
    return run


def _keyword_only(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> inspect.Parameter:
    annotated = parameter.replace(annotation=hints.get(parameter.name, parameter.empty))
    if parameter.kind is parameter.VAR_KEYWORD:
        return annotated
    return annotated.replace(kind=inspect.Parameter.KEYWORD_ONLY)

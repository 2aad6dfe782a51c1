"""The class of an author's environment with the settings of a run, and the parts that it has."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from palestra.errors import InputDataError
from palestra.schema import JsonObject
from palestra.server.author_code import AuthorCode, AuthorFiles, code_of, place_of
from palestra.server.authors_errors import unawaited_call
from palestra.server.environments.async_calls import AsyncCalls
from palestra.server.environments.environment import FUNCTION_MARK, Environment, made
from palestra.server.environments.parameters import ANSWER, RESPONSE, TASK, Parameters
from palestra.server.environments.row_fields import explained_fields
from palestra.server.environments.services import RolloutServices
from palestra.server.environments.task import read_only
from palestra.server.own_errors import raising_place
from palestra.server.tools import tools_of

START, VERIFY, REPLY, GOLD, MESSAGES, DATA = "start", "verify", "reply", "gold", "messages", "data"

FILLED: Final[Mapping[str, frozenset[str]]] = {
    START: frozenset({TASK}),
    VERIFY: frozenset({TASK, ANSWER, RESPONSE}),
    REPLY: frozenset({TASK, ANSWER, RESPONSE}),
    GOLD: frozenset({TASK}),
    MESSAGES: frozenset({TASK}),
}
"""The parameters of each method that are filled besides the fields of the row."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` returns an awaitable: the function, its `__call__` or the function
    that it wraps is async.
    """
    called = getattr(function, "__call__", function)  # noqa: B004  # of an object
    return any(map(inspect.iscoroutinefunction, (function, called, inspect.unwrap(function))))


@dataclass(frozen=True)
class AuthorClass:
    """An environment's class with the settings of a run, its name and the folder of its file."""

    cls: type[Environment]
    name: str
    folder: Path = field(default_factory=Path)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings with their values."""
    files: AuthorFiles = field(default_factory=AuthorFiles, repr=False, compare=False)
    """Read the author's code."""

    def location(self, name: str) -> str:
        """Return `FILE:LINE: `, where the author's code sets the attribute or method `name`."""
        return place_in(self.cls, self.files, name)

    def has(self, name: str) -> bool:
        """Whether the author has written the method `name`."""
        return callable(getattr(self.cls, name, None))

    def plain(self, name: str) -> Any:
        """Return the author's function, as an attribute of the class."""
        return getattr(self.cls, name)

    def code(self, name: str) -> AuthorCode:
        """Return the code of the author's function `name`."""
        return self.files.code_of(self.plain(name))

    @cached_property
    def methods(self) -> dict[str, AuthorCode]:
        """The code of each function of the author's class and its bases, by name."""
        return {name: self.files.code_of(vars(owner)[name]) for name, owner in self.owners.items()}

    @cached_property
    def owners(self) -> dict[str, type[Any]]:
        """The class that has each function of the author's class and its bases, by name."""
        owners = [owner for owner in self.cls.__mro__ if owner not in Environment.__mro__]
        last_owners = {name: owner for owner in reversed(owners) for name in vars(owner)}
        return {
            name: owner
            for name, owner in last_owners.items()
            if code_of(vars(owner)[name]) is not None
        }

    @cached_property
    def async_calls(self) -> AsyncCalls:
        """Which calls of the author's code return a coroutine."""
        return AsyncCalls(self.cls, self.methods, self.files)

    def parameters(self, name: str) -> Parameters:
        """Return the parameters of the author's method `name`, without `self`."""
        own_name = getattr(self.plain(name), "__name__", name)
        label = own_name if self.is_function else f"{self.cls.__name__}.{name}"
        return Parameters.of(getattr(self.unused, name), label, self.location(name))

    @property
    def is_function(self) -> bool:
        """Whether the environment is a decorated function, so that there is no object."""
        return hasattr(self.cls, FUNCTION_MARK)

    @cached_property
    def unused(self) -> Environment:
        """An object that no rollout uses, whose methods tell their parameters."""
        return self.cls.__new__(self.cls)

    @cached_property
    def tools(self) -> dict[str, Any]:
        """The author's tools by name, as attributes of the class."""
        return tools_of(self.cls)

    @property
    def has_state(self) -> bool:
        """Whether a rollout has an object before it is verified."""
        return bool(self.tools) or self.has(START) or self.has(REPLY)

    @property
    def takes_turns(self) -> bool:
        """Whether the user answers the model."""
        return self.has(REPLY)

    def is_blocking(self) -> bool:
        """Whether some method of a rollout is a plain function."""
        names = [name for name in (START, VERIFY, REPLY) if self.has(name)]
        functions = [self.plain(name) for name in names]
        return not all(map(is_async, [*functions, *self.tools.values()]))

    def made(self, services: RolloutServices) -> Environment:
        """Return the object of a new rollout."""
        return made(self.cls, services)

    def call_plainly(self, name: str, row: JsonObject, *, where: str) -> Any:
        """Return what the author's plain method `name` returns for a row, on an object of its own.

        Raises InputDataError: it raised an exception.
        """
        task = read_only(row)
        environment = self.made(RolloutServices(task=task))
        arguments = self.parameters(name).filled({**row, TASK: task})
        try:
            with explained_fields(environment, row, method=name):
                returned = getattr(environment, name)(**arguments)
        except Exception as error:
            raise InputDataError(
                f"{raising_place(error)}{name} of {self.name} raised {type(error).__name__} for {where}: "
                f"{error}",
                hint=f"the row has {', '.join(row)}" if isinstance(error, KeyError) else "",
            ) from error
        if call := unawaited_call(returned):
            raise InputDataError(
                f"{self.location(name)}{name} of {self.name} returned {call}",
                hint=f"{name} is not awaited: call plain functions in it, without async",
            )
        return returned


def place_in(cls: type[Environment], files: AuthorFiles, name: str) -> str:
    """Return `FILE:LINE: `, where an author's class sets the attribute or method `name`, or the
    decorator of its function gets it; else where the class or the function begins. Empty when it is
    in no file.
    """
    owners = [owner for owner in cls.__mro__ if owner not in Environment.__mro__]
    if FUNCTION_MARK in owners[-1].__dict__:
        function = vars(owners[-1])[VERIFY]
        return files.place_of_argument(function, name) or place_of(function)
    member = inspect.getattr_static(cls, name, None)
    if member is not None and code_of(member) is not None:
        return place_of(member)
    locations = (files.place_of_attribute(owner, name) for owner in owners if name in vars(owner))
    return next(filter(None, (*locations, *map(place_of, owners))), "")

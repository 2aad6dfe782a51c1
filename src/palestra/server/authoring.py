"""The smallest environment: one verify function with its data, in one file.

@environment(data=[{"question": "2 + 2 = ?", "expected_answer": "4"}], prompt="{question}")
def verify(answer: str, expected_answer: str) -> float:
    return float(answer.strip() == expected_answer)
"""

import functools
import inspect
import re
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

from pydantic import PrivateAttr

from palestra.config import did_you_mean
from palestra.errors import InputDataError, RowError
from palestra.schema import (
    CREATE_PARAMS,
    JsonDict,
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    response_of,
)
from palestra.server.author_calls import VERIFY, Aside, AuthorMethod, code_of, is_authors_file
from palestra.server.resources_server import ResourcesServer, ResourcesServerConfig
from palestra.server.reward_rules import RewardRules

ANSWER = "answer"
RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that `@environment` makes from a function: its rows and its verifier.

    Calling the object calls the function, so that it can be tested like a function.
    """

    name: str
    verify: Callable[..., Any]
    data: tuple[JsonObject, ...]
    prompt: str
    system: str
    gold: str = ""
    reward_rules: RewardRules = field(default_factory=RewardRules)
    isolated: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.verify(*args, **kwargs)

    def rows(self) -> Iterable[JsonDict]:
        """Return the task rows.

        Raises InputDataError, naming each row that lacks a field of the prompt or of the function's
        parameters.
        """
        self._check_parameters()
        prompt_fields = self._prompt_fields()
        bad = [
            f"row {number}: no field {name!r}"
            for number, row in enumerate(self.data)
            for name in prompt_fields
            if name not in row
        ]
        if bad:
            raise InputDataError(
                f"the prompt of {self.name} cannot be filled: " + "; ".join(bad[:10])
            )
        for row in self.data:
            messages = [{"role": "user", "content": self.prompt.format(**row)}]
            if self.system:
                messages.insert(0, {"role": "system", "content": self.system})
            yield {CREATE_PARAMS: {"input": messages}, **row}

    def _check_parameters(self) -> None:
        """Raise InputDataError for parameters of the function that are no fields of the rows."""
        required = _required(self.verify)
        bad: list[str] = []
        for name in required:
            rows = [n for n, row in enumerate(self.data) if name not in row]
            if not rows:
                continue
            fields = {ANSWER, RESPONSE}.union(*self.data) - set(required)
            where = "no row" if len(rows) == len(self.data) else f"row {rows[0]} of data"
            has = "has" if len(rows) == len(self.data) else "does not have"
            bad.append(f"{name!r}, which {where} {has}{did_you_mean(name, fields)}")
        if bad:
            parameter_names = sorted({ANSWER, RESPONSE}.union(*self.data))
            raise InputDataError(
                f"{self.name}({', '.join(inspect.signature(self.verify).parameters)}) asks for "
                + "; for ".join(bad),
                hint=f"its parameters may be: {', '.join(parameter_names)}",
            )

    def _prompt_fields(self) -> list[str]:
        try:
            field_names = [name for _, name, _, _ in string.Formatter().parse(self.prompt)]
        except ValueError as error:
            raise InputDataError(
                f"the prompt of {self.name} is not a format string: {error}",
                hint="a brace that is meant as one is written twice: {{ or }}",
            ) from None
        # What follows a dot or a bracket is looked up in the row's field.
        fields = [re.split(r"[.\[]", name)[0] for name in field_names if name is not None]
        if not all(fields) or any(name.isdigit() for name in fields):
            raise InputDataError(
                f"the prompt of {self.name} has a placeholder without a field's name",
                hint="write {question}, not {} or {0}; braces that are meant as such, twice",
            )
        return fields


def environment(
    *,
    data: Iterable[JsonObject],
    prompt: str,
    system: str = "",
    name: str = "",
    gold: str = "",
    reward_rules: RewardRules | None = None,
    isolated: bool = True,
) -> Callable[[Callable[..., float]], Environment]:
    """Return a decorator that makes an environment from a verify function.

    `data`: one mapping per task. `prompt`: the user message, with `{field}` placeholders. The
    function gets `answer`, the text of the model's last message, and each field of the row that is
    one of its parameters; a parameter `response` gets the whole trajectory. It returns the reward.

    A plain function is called in one of several worker processes, one call at a time, so it may use
    signals. It must keep no state that another call needs. A call that does not return is killed at
    the rollout's deadline. A call that uses more than 4 GiB is killed too. The rollout then ends as
    `verifier_error`, as it does when the call crashes. An `async` function is awaited in the
    server's process, and must not block. With `isolated=False` a plain function is also called in
    the server's process, on one of a few threads: it shares memory with the server, and nothing can
    stop it.

    `name`: the environment's name in tables, files and errors; by default the function's name.
    `gold`: the answer of a perfect model, with `{field}` placeholders, for `verify-env`.
    `reward_rules`: the rewards that the function may return, if not 0 for wrong and 1 for right.
    """

    def decorate(function: Callable[..., Any]) -> Environment:
        label = name or getattr(function, "__name__", "environment")
        rules = reward_rules or RewardRules()
        return Environment(label, function, tuple(data), prompt, system, gold, rules, isolated)

    return decorate


class FunctionCalls(Protocol):
    """Calls an environment's function in other processes."""

    async def start(self) -> None:
        """Start one process and import the function's file in it."""

    async def reward(self, keywords: Mapping[str, Any], /) -> float:
        """Call the function with `keywords` and return the reward. Raises CallError."""

    async def close(self) -> None:
        """End the processes."""


class FunctionServer(ResourcesServer):
    """The resources server of an `Environment`. `server_class_of` makes a subclass for one
    environment.
    """

    _palestra_calls: FunctionCalls | None = PrivateAttr(default=None)

    def isolate_function(self, calls: FunctionCalls) -> None:
        """Use `calls` to call the function in other processes."""
        self._palestra_calls = calls

    def isolated_file(self) -> Path | None:
        """Return the file whose function other processes call; None when this process calls it."""
        env = self.made_environment()
        return self.environment_path() if env.isolated and not _is_async(env.verify) else None

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        """Call the author's function with the fields that it takes, and return the verify response."""
        env = self.made_environment()
        offered: dict[str, Any] = {
            **(body.model_extra or {}),
            ANSWER: body.response.final_text,
            RESPONSE: body.response,
        }
        arguments = _arguments_for(env, offered)
        if self._palestra_calls is not None:
            reward: Any = await self._palestra_calls.reward(arguments)
        elif inspect.iscoroutinefunction(env.verify):
            reward = await env.verify(**arguments)
        else:
            reward = await self._aside.run(functools.partial(env.verify, **arguments))
            if inspect.isawaitable(reward):  # of a decorated function, or a callable object
                reward = await reward
        # NumPy's numbers are rewards too; anything else is reported as what it is.
        score = float(reward) if isinstance(reward, Real) else reward
        return self.reply(body, score, extracted_answer=offered[ANSWER])

    def palestra_author_method(
        self, method: Callable[..., Any] | None, path: str
    ) -> AuthorMethod | None:
        """Return the author's function as an AuthorMethod for `/verify`; None when other processes
        run it.
        """
        env = self.made_environment()
        code = code_of(env.verify)
        if path != VERIFY or code is None or not is_authors_file(code.co_filename):
            return super().palestra_author_method(method, path)
        if self.isolated_file() is not None:
            return None
        return AuthorMethod(env.verify, self, path)

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the environment's `gold` answer, filled with the row's fields."""
        gold = self.made_environment().gold
        return response_of(gold.format(**row)) if gold else None

    def declared_reward_rules(self) -> RewardRules:
        """Return the environment's reward rules."""
        return self.made_environment().reward_rules

    def made_environment(self) -> Environment:
        """Return the environment that this class serves."""
        raise NotImplementedError

    def environment_path(self) -> Path | None:
        """Return the file that the environment was loaded from, so that other processes can load it
        too.
        """
        return None

    async def start_workers(self) -> None:
        """Import the file in another process now, so that an import error is raised before any row
        runs.
        """
        if self._palestra_calls is not None:
            await self._palestra_calls.start()

    async def end_workers(self) -> None:
        """End the worker processes."""
        calls, self._palestra_calls = self._palestra_calls, None
        if calls is not None:
            await calls.close()

    @cached_property
    def _aside(self) -> Aside:
        return Aside()


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` returns an awaitable: the function, its `__call__` or the function
    that it wraps is async.
    """
    called = getattr(function, "__call__", function)  # noqa: B004  # of an object
    return any(map(inspect.iscoroutinefunction, (function, called, inspect.unwrap(function))))


def server_class_of(env: Environment, path: Path | None = None) -> type[FunctionServer]:
    """Return a server class for one environment. `path`: the file that it was loaded from."""

    class BoundFunctionServer(FunctionServer):
        config: ResourcesServerConfig

        def made_environment(self) -> Environment:
            return env

        def environment_path(self) -> Path | None:
            return path

    return BoundFunctionServer


def _arguments_for(env: Environment, offered: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(env.verify).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return dict(offered)
    missing = [name for name in _required(env.verify) if name not in offered]
    if missing:
        raise RowError(
            f"{env.name} asks for {', '.join(missing)}, which the row does not have",
            hint=f"this row has: {', '.join(sorted(offered))}",
        )
    return {name: offered[name] for name in parameters if name in offered}


def _required(function: Callable[..., Any]) -> list[str]:
    """Return the function's parameters that have no default."""
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in {ANSWER, RESPONSE}
        and parameter.default is inspect.Parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]

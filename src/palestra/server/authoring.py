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
    """What `@environment` makes of a function: its rows and its verifier.

    Calling it calls the function, so that it can be tested like one.
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
        """Task rows.

        Raises InputDataError naming each row that lacks a field of the prompt, or one that the
        function asks for.
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
        """Raise InputDataError for what the function asks for and rows do not have."""
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
                f"the prompt of {self.name} is no format string: {error}",
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
    """Make an environment of a function.

    `data`: one mapping per task. `prompt`: the user message, with `{field}` placeholders.
    The function gets `answer`, the text of the model's last message, and any fields of the row
    it names; `response` gives it the whole trajectory. It returns the reward.

    A plain function is called in one of several worker processes, alone there, so it may use
    signals, and must keep no state that another call needs. One that does not return is killed at
    the rollout's deadline, and so is one that crashes or takes more than 4 GiB: its rollout ends as
    `verifier_error`. An `async` one is awaited in the server's process, and must not block.
    `isolated=False` calls a plain one in the server's process too, on one of a few threads: it
    shares memory with the server there, and nothing can stop it.

    `name`: what the environment is called in tables, files and errors; else the function's.
    `gold`: what a perfect model would answer, with `{field}` placeholders, for `verify-env`.
    `reward_rules`: what its rewards may be, where it is not 0 for wrong and 1 for right.
    """

    def decorate(function: Callable[..., Any]) -> Environment:
        label = name or getattr(function, "__name__", "environment")
        rules = reward_rules or RewardRules()
        return Environment(label, function, tuple(data), prompt, system, gold, rules, isolated)

    return decorate


class FunctionCalls(Protocol):
    """Calls of an environment's function, in other processes."""

    async def start(self) -> None:
        """Have a process ready, with the function's file imported."""

    async def reward(self, keywords: Mapping[str, Any], /) -> float:
        """What the function returns. Raises CallError."""

    async def close(self) -> None:
        """End the processes."""


class FunctionServer(ResourcesServer):
    """The resources server of an `Environment`; `server_class_of` binds one to a class."""

    _palestra_calls: FunctionCalls | None = PrivateAttr(default=None)

    def isolate_function(self, calls: FunctionCalls) -> None:
        """Have the function called by `calls`."""
        self._palestra_calls = calls

    def isolated_file(self) -> Path | None:
        """The file whose function other processes are to call; None where this one calls it."""
        env = self.made_environment()
        return self.environment_path() if env.isolated and not _is_async(env.verify) else None

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        """Call the author's function with what it asks for."""
        env = self.made_environment()
        offered: dict[str, Any] = {
            **(body.model_extra or {}),
            ANSWER: body.response.final_text,
            RESPONSE: body.response,
        }
        arguments = _wanted(env, offered)
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
        """The environment's function, where it is not one that comes with us."""
        env = self.made_environment()
        code = code_of(env.verify)
        if path != VERIFY or code is None or not is_authors_file(code.co_filename):
            return super().palestra_author_method(method, path)
        if self.isolated_file() is not None:
            return None
        return AuthorMethod(env.verify, self, path)

    def gold_response(self, row: JsonObject) -> Response | None:
        """The environment's `gold`, filled from the row."""
        gold = self.made_environment().gold
        return response_of(gold.format(**row)) if gold else None

    def declared_reward_rules(self) -> RewardRules:
        """The environment's own."""
        return self.made_environment().reward_rules

    def made_environment(self) -> Environment:
        """The environment that this class serves."""
        raise NotImplementedError

    def environment_path(self) -> Path | None:
        """The file that the environment was loaded from, for processes that load it too."""
        return None

    async def start_workers(self) -> None:
        """Import the file in another process now: what fails there is said before any row."""
        if self._palestra_calls is not None:
            await self._palestra_calls.start()

    async def end_workers(self) -> None:
        """End them."""
        calls, self._palestra_calls = self._palestra_calls, None
        if calls is not None:
            await calls.close()

    @cached_property
    def _aside(self) -> Aside:
        return Aside()


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await: async itself, its `__call__`, or what it wraps."""
    called = getattr(function, "__call__", function)  # noqa: B004  # of an object
    return any(map(inspect.iscoroutinefunction, (function, called, inspect.unwrap(function))))


def server_class_of(env: Environment, path: Path | None = None) -> type[FunctionServer]:
    """A server class for one environment. `path`: the file that it was loaded from."""

    class BoundFunctionServer(FunctionServer):
        config: ResourcesServerConfig

        def made_environment(self) -> Environment:
            return env

        def environment_path(self) -> Path | None:
            return path

    return BoundFunctionServer


def _wanted(env: Environment, offered: Mapping[str, Any]) -> dict[str, Any]:
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
    """The fields that a function asks for and has no default for."""
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in {ANSWER, RESPONSE}
        and parameter.default is inspect.Parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]

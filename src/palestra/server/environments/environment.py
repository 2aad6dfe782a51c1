"""What an author writes: a subclass of `Environment`, or a function with `@environment`.

    class Sums(Environment):
        data = [{"question": "2 + 2 = ?", "expected": "4"}]
        prompt = "{question}"

        def verify(self, answer, expected):
            return answer.strip() == expected

The same as a function:

    @environment(data=[{"question": "2 + 2 = ?", "expected": "4"}], prompt="{question}")
    def verify(answer, expected):
        return answer.strip() == expected
"""

import contextlib
import functools
import inspect
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.sandbox import Sandbox
from palestra.schema import FunctionCall, JsonObject, called
from palestra.server.author_code import calling_place, layers_of
from palestra.server.environments.services import EnvironmentJudge, RolloutServices
from palestra.server.reward_rules import RewardRules

F = TypeVar("F", bound=Callable[..., Any])

MARK: Final = "__palestra_environment__"
"""The attribute of a decorated function that holds its class."""
FUNCTION_MARK: Final = "_palestra_function"
"""The attribute of a class that was made of a decorated function."""
_SERVICES: Final = "_palestra_services"


class Environment:
    """The base class of an environment in one file. Each rollout gets an object of its own.

    Write `verify`, and what else the task needs:

    - `start(self, task)` prepares the rollout. The attributes of the object are its state.
    - methods with `@tool` are the model's tools.
    - `reply(self, answer, task)` returns what the user says next; None ends the conversation.
    - `verify(self, answer, task)` returns a number, a bool, or components by name.
    - `messages(self, task)` returns the messages of a task, instead of `prompt`.
    - `gold(self, task)` returns the right answer: a text, or a list of calls and texts.

    All may be `async`, except `messages` and `gold`. Parameters are filled by name: `task` (the row,
    read-only), `answer` (the text of the last message), `response` (the trajectory), and each field
    of the row. Annotated attributes with a value are settings: `--set difficulty=5`.
    """

    data: Any = ()
    """The task rows: a list; a table, such as one of pandas; a path of `.jsonl`, `.json`, `.csv`,
    `.tsv` or `.parquet`, also with `.gz` or `.zst`, relative to the file, or a glob of such paths;
    `hf:org/name[@revision][:config][/split]`; or a function that yields rows."""
    prompt: str = ""
    """The user message, with `{field}` placeholders. Rows without a prompt of the environment bring
    their own `responses_create_params`."""
    system: str = ""
    """The system message, with `{field}` placeholders."""
    max_turns: int | None = None
    """How often the model is called in one rollout, at most. None: no limit."""
    weights: Mapping[str, float] = MappingProxyType({})
    """The weights of the components that `verify` returns; 1 without one."""
    isolated: bool = True
    """Whether plain (not async) methods run in worker processes, which can be killed. The object is
    then in the worker. False: they run on threads of the server's process, where nothing can stop
    them."""
    reward_rules: RewardRules = RewardRules()
    """The rewards that `verify` may return; `palestra verify-env` checks them."""

    @property
    def task(self) -> JsonObject:
        """The task row, read-only; for tools, whose parameters are the model's."""
        return _services(self).task

    @property
    def judge(self) -> EnvironmentJudge:
        """A model that is asked whether an answer is right. Its methods are awaited."""
        return _services(self).judge

    @property
    def sandbox(self) -> Sandbox:
        """Runs untrusted programs: `await self.sandbox.run(Program.python(code))`."""
        return _services(self).sandbox

    @property
    def rng(self) -> random.Random:
        """Random numbers of this rollout, seeded by run, task and rollout."""
        return _services(self).rng


def _services(environment: Environment) -> RolloutServices:
    """Return the services of an object; for one that was made by hand, new ones."""
    services = environment.__dict__.get(_SERVICES)
    if not isinstance(services, RolloutServices):
        services = environment.__dict__[_SERVICES] = RolloutServices()
    return services


def made(cls: type[Environment], services: RolloutServices) -> Environment:
    """Return a new object of an author's class. Its `__init__` can use the services already."""
    environment = cls.__new__(cls)
    environment.__dict__[_SERVICES] = services
    cls.__init__(environment)
    return environment


def _explained(function: F) -> F:
    """Return `function`, which raises ConfigError for arguments that it does not take."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def explained(*positional: Any, **values: Any) -> Any:
        unknown = [name for name in values if name not in parameters]
        if not positional and not unknown and "data" in values:
            return function(**values)
        where = f"{calling_place()}: @environment"
        if unknown:
            near = "; did you mean 'data'?" if unknown[0].startswith("data") else ""
            raise ConfigError(
                f"{where} has no parameter {unknown[0]!r}"
                f"{near or did_you_mean(unknown[0], parameters)}",
                hint=f"its parameters: {', '.join(parameters)}",
            )
        raise ConfigError(
            f"{where} needs the rows of the environment, by name",
            hint='@environment(data="tasks.jsonl", prompt="{question}")',
        )

    return cast("F", explained)


@_explained
def environment(
    *,
    data: Any,
    prompt: str = "",
    system: str = "",
    name: str = "",
    gold: str | Callable[..., Any] = "",
    weights: Mapping[str, float] | None = None,
    reward_rules: RewardRules | None = None,
    isolated: bool = True,
) -> Callable[[F], F]:
    """Return a decorator that makes an environment of a verify function.

    The function stays a function, so that it can be tested like one. Its parameters are filled by
    name, and it returns what `Environment.verify` returns. The other parameters are the attributes
    of `Environment`; `gold` is a text with `{field}` placeholders, or a function of the row's
    fields. `name`: what messages call it where there is no file; an environment of a file has the
    file's name.
    """
    parts: dict[str, Any] = {
        "data": staticmethod(data) if callable(data) else data,
        "prompt": prompt,
        "system": system,
        "weights": weights or {},
        "reward_rules": RewardRules() if reward_rules is None else reward_rules,
        "isolated": isolated,
    }
    if gold:
        parts["gold"] = staticmethod(gold) if callable(gold) else gold

    def decorate(function: F) -> F:
        innermost = layers_of(function)[-1]
        members = {
            **parts,
            FUNCTION_MARK: True,
            "verify": staticmethod(function),
            "__module__": getattr(innermost, "__module__", __name__),
            "__doc__": innermost.__doc__,
        }
        label = name or getattr(innermost, "__name__", "verify")
        if not isinstance(function, type):
            with contextlib.suppress(AttributeError):
                setattr(function, MARK, type(label, (Environment,), members))
                return function
        raise ConfigError(
            f"{calling_place()}: @environment cannot decorate {function!r}",
            hint="decorate a function; a class is one of palestra.Environment",
        )

    return decorate


def class_of(value: object) -> type[Environment] | None:
    """Return the class of an environment: `value` itself, or that of a decorated function; None for
    any other object.
    """
    if isinstance(value, type):
        return value if issubclass(value, Environment) and value is not Environment else None
    mark = getattr(value, MARK, None)
    return mark if isinstance(mark, type) and issubclass(mark, Environment) else None


def call(name: str, /, **arguments: Any) -> FunctionCall:
    """Return a call of a tool, for `gold`: `[call("take", name="apple"), "Done."]`."""
    return called(name, arguments)

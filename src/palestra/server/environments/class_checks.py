"""Checks of the class of an environment before any rollout: what must fail, and what is most likely a
slip.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from palestra.errors import ConfigError
from palestra.schema import TOOL_NAME_RULE, is_tool_name
from palestra.server.author_code import outer_names_of, place_of
from palestra.server.environments.attribute_types import refuse_wrong_values
from palestra.server.environments.author_class import (
    DATA,
    FILLED,
    GOLD,
    MESSAGES,
    REPLY,
    START,
    VERIFY,
    AuthorClass,
    is_async,
)
from palestra.server.environments.awaiting import MethodUse, refuse_unawaited
from palestra.server.environments.code_slips import refuse_slips_in_code
from palestra.server.environments.method_calls import (
    refuse_positional_only,
    refuse_uncallable_init,
    refuse_yield,
)
from palestra.server.environments.method_checks import (
    refuse_missing_self,
    refuse_unreadable_types,
)
from palestra.server.environments.returned_values import (
    always_returns_text,
    never_returns_a_value,
    returns_only_numbers,
)
from palestra.server.environments.rewards import how_to_use, weights_problem
from palestra.server.environments.service_calls import refuse_wrong_calls
from palestra.server.return_types import promised_value
from palestra.server.tools import has_description, spread_parameters, untyped_parameters

OWN_PATHS: Final = frozenset(
    {"aggregate_metrics", "close_session", "reset", "seed_session", "step", "verify"}
)
"""Paths of an environment's server, which no tool may have."""
_NEVER_AWAITED: Final = (DATA, GOLD, MESSAGES)
_WITHOUT_VALUE: Final[Mapping[str, str]] = {
    VERIFY: "no answer gets a reward",
    REPLY: "each conversation ends after the model's first turn",
    GOLD: "no right answer is known",
    MESSAGES: "no task has a prompt",
}
"""What it means that a method never returns a value."""
_MAY_YIELD: Final = (GOLD, MESSAGES)
"""Methods whose items are wanted."""


def refuse_wrong_parts(author: AuthorClass) -> None:
    """Raise ConfigError when the class has no `verify`, or a part of it must fail in a rollout."""
    cls = author.cls
    if not author.has(VERIFY):
        raise _without_verify(author)
    refuse_missing_self(cls, FILLED, author.tools)
    refuse_wrong_values(cls, author.name, author.location)
    _refuse_uncallable(author)
    awaited = [name for name in _NEVER_AWAITED if author.has(name) and is_async(author.plain(name))]
    if awaited:
        raise ConfigError(
            f"{author.location(awaited[0])}{author.name}: {awaited[0]} must be a plain function, not async"
        )
    if problem := weights_problem(cls.weights):
        raise ConfigError(
            f"{author.location('weights')}{author.name}: {problem}",
            hint='weights = {"correct": 1.0}',
        )
    if cls.weights and returns_only_numbers(author.plain(VERIFY), author.code(VERIFY)):
        raise ConfigError(
            f"{author.location('weights')}{author.name} has weights, but its verify returns a number, so that they have no "
            "effect",
            hint=how_to_use(cls.weights),
        )
    reserved_names = sorted(OWN_PATHS & author.tools.keys())
    if reserved_names:
        raise ConfigError(
            f"{author.location(reserved_names[0])}{author.name}: a tool cannot be named "
            f"{reserved_names[0]}, which is a path of the server",
            hint="give the method another name",
        )
    _refuse_untyped_tools(author)
    refuse_unreadable_types(author.tools)
    _refuse_all_unawaited(author)
    for name in (START, VERIFY, REPLY, *author.tools):
        if author.has(name):
            filled_names = FILLED.get(name, frozenset())
            refuse_slips_in_code(author.plain(name), author.code(name), name, filled_names)
    _refuse_wrong_calls(author)
    limit = cls.max_turns
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ConfigError(
            f"{author.location('max_turns')}{author.name}: max_turns must be a number from 1 on, not "
            f"{limit!r}"
        )


def _without_verify(author: AuthorClass) -> ConfigError:
    location, value = author.location(VERIFY), getattr(author.cls, VERIFY, None)
    if value is None:
        return ConfigError(
            f"{location}{author.name} has no verify: nothing says how good an answer is",
            hint="def verify(self, answer, task): return …",
        )
    return ConfigError(
        f"{location}verify of {author.name} must be a method, not a {type(value).__name__}",
        hint="call the parts of the reward in it, and return them by name: "
        'def verify(self, answer): return {"correct": …, "format": …}',
    )


def _refuse_wrong_calls(author: AuthorClass) -> None:
    """Raise ConfigError when a method calls the judge or the sandbox in a way that must fail."""
    for name, code in author.methods.items():
        refuse_wrong_calls(author.cls, code, name)


def _refuse_all_unawaited(author: AuthorClass) -> None:
    """Raise ConfigError when some function uses the call of an async function without await."""
    entries = [name for name in (*FILLED, *author.tools) if name in author.owners]
    helpers = [name for name in author.owners if name not in entries]
    for name in (*helpers, *entries):  # a helper may be why an entry is wrong
        _refuse_unawaited(author, name)
    functions = [vars(owner)[name] for name, owner in author.owners.items()]
    for function in author.async_calls.functions_used(functions):
        refuse_unawaited(
            author.files.code_of(function),
            function.__name__,
            has_judge=True,
            is_coroutine=author.async_calls.in_code_of(function),
            outer_names=outer_names_of(function),
        )


def _refuse_unawaited(author: AuthorClass, name: str) -> None:
    """Raise ConfigError when a method uses the call of an async function without await."""
    function = vars(author.owners[name])[name]
    is_entry = name in (*FILLED, *author.tools)
    is_run = name in (START, VERIFY, REPLY, *author.tools)
    code = author.files.code_of(function)
    refuse_unawaited(
        code,
        name,
        has_judge=not is_run
        or is_async(author.plain(name))
        or author.has_state
        or not author.cls.isolated,
        is_coroutine=author.async_calls.in_code_of(function),
        use=MethodUse(
            is_awaited=name not in _NEVER_AWAITED,
            is_final=is_entry and not hasattr(function, "__wrapped__"),
        ),
        outer_names=outer_names_of(function),
    )


def _refuse_uncallable(author: AuthorClass) -> None:
    """Raise ConfigError when a method cannot be called in the way that a rollout calls it."""
    refuse_uncallable_init(author.cls)
    for name in (*filter(author.has, FILLED), *author.tools):
        refuse_positional_only(name, author.plain(name), getattr(author.unused, name))
        if name not in _MAY_YIELD:
            refuse_yield(name, author.plain(name))


def _refuse_untyped_tools(author: AuthorClass) -> None:
    untyped = {name: untyped_parameters(function) for name, function in author.tools.items()}
    problems = [
        f"{place_of(author.tools[tool])}the tool {tool} has no type for {', '.join(parameters)}"
        for tool, parameters in untyped.items()
        if parameters
    ]
    if problems:
        examples = [text for parameters in untyped.values() for text in parameters.values()]
        raise ConfigError(
            f"{'; '.join(problems)}, so the model would not know what to pass",
            hint=f"write a type for each parameter, such as {', '.join(examples)}; "
            "typing.Any where everything is right",
        )
    for name, function in author.tools.items():
        if spread := spread_parameters(function):
            raise ConfigError(
                f"{place_of(function)}the tool {name} takes {' and '.join(spread)}, which the model "
                "cannot fill: it sees named parameters",
                hint="write a parameter with a type for each thing that the model may pass",
            )


def slips_of(author: AuthorClass) -> tuple[str, ...]:
    """Return a sentence for each tool without a docstring, or with a name that some providers
    refuse, for methods that forgot their return, and for conversations without an end.
    """
    undescribed = (
        f"{place_of(function)}the tool {name} has no docstring, so the model sees no description"
        for name, function in author.tools.items()
        if not has_description(function)
    )
    refused = (
        f"{place_of(function)}the tool {name} has a name that OpenAI and Anthropic refuse: "
        f"{TOOL_NAME_RULE}"
        for name, function in author.tools.items()
        if not is_tool_name(name)
    )
    return (*undescribed, *refused, *_forgotten_returns(author), *_endless(author))


def _forgotten_returns(author: AuthorClass) -> Iterator[str]:
    """Yield a sentence for each method that returns nothing where a value is wanted."""
    for name, function in author.tools.items():
        kind = promised_value(function)
        if kind and never_returns_a_value(function, author.code(name)):
            yield (
                f"{place_of(function)}the tool {name} returns nothing, and its annotation promises "
                f"{kind}: write return"
            )
    for name, effect in _WITHOUT_VALUE.items():
        if author.has(name) and never_returns_a_value(author.plain(name), author.code(name)):
            yield f"{author.code(name).place}{name} returns nothing, so that {effect}: write return"


def _endless(author: AuthorClass) -> Iterator[str]:
    """Yield a sentence when neither `reply` nor a limit ends a conversation."""
    if (
        author.takes_turns
        and author.cls.max_turns is None
        and always_returns_text(author.plain(REPLY), author.code(REPLY))
    ):
        yield (
            f"{author.code(REPLY).place}reply never returns None, and there is no max_turns: a "
            "conversation goes on until the model's context or the rollout's time is used up; "
            "write max_turns = 5, or return None when it shall end"
        )

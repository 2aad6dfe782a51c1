"""A class of an environment with its settings: what it consists of, its checks and its task rows."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Self

import orjson

from palestra.errors import ConfigError, InputDataError
from palestra.schema import (
    CREATE_PARAMS,
    TOOL_NAME_RULE,
    JsonDict,
    JsonObject,
    Response,
    WireModel,
    encode_json,
    is_tool_name,
    response_of,
    short_repr,
    to_plain,
)
from palestra.server.author_code import (
    AuthorCode,
    AuthorFiles,
    code_of,
    outer_names_of,
    place_of,
)
from palestra.server.authors_errors import unawaited_call
from palestra.server.environments.async_calls import AsyncCalls
from palestra.server.environments.attribute_slips import refuse_slips
from palestra.server.environments.attribute_types import refuse_wrong_values
from palestra.server.environments.awaiting import MethodUse, refuse_unawaited
from palestra.server.environments.code_slips import refuse_slips_in_code
from palestra.server.environments.environment import FUNCTION_MARK, Environment, class_of, made
from palestra.server.environments.method_calls import (
    refuse_positional_only,
    refuse_uncallable_init,
    refuse_yield,
)
from palestra.server.environments.method_checks import (
    refuse_missing_self,
    refuse_unreadable_types,
)
from palestra.server.environments.number_comparisons import compared_numbers
from palestra.server.environments.own_settings import checked, settings_of
from palestra.server.environments.parameters import ANSWER, RESPONSE, TASK, Parameters
from palestra.server.environments.prompts import Template, checked_messages
from palestra.server.environments.records import RowPlaces, plain_row, refuse_unfilled, rows_of
from palestra.server.environments.returned_values import (
    always_returns_text,
    never_returns_a_value,
    returns_only_numbers,
)
from palestra.server.environments.rewards import how_to_use, weights_problem
from palestra.server.environments.row_fields import explained_fields
from palestra.server.environments.service_calls import refuse_wrong_calls
from palestra.server.environments.services import RolloutServices
from palestra.server.environments.shadowed_fields import shadowed_fields
from palestra.server.environments.task import read_only, reserved_fields, task_fields
from palestra.server.method_forms import as_function, is_partial_or_object, refuse_form
from palestra.server.own_errors import raising_place
from palestra.server.return_types import promised_value
from palestra.server.tools import (
    has_description,
    spread_parameters,
    tool_schema,
    tools_of,
    untyped_parameters,
)

START, VERIFY, REPLY, GOLD, MESSAGES, DATA = "start", "verify", "reply", "gold", "messages", "data"

FILLED: Final[Mapping[str, frozenset[str]]] = {
    START: frozenset({TASK}),
    VERIFY: frozenset({TASK, ANSWER, RESPONSE}),
    REPLY: frozenset({TASK, ANSWER, RESPONSE}),
    GOLD: frozenset({TASK}),
    MESSAGES: frozenset({TASK}),
}
"""The parameters of each method that are filled besides the fields of the row."""
OWN_PATHS: Final = frozenset(
    {"aggregate_metrics", "close_session", "reset", "seed_session", "step", "verify"}
)
"""Paths of an environment's server, which no tool may have."""
_SORTED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
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
_ATTRIBUTE: Final = "annotate an attribute: difficulty: int = 3"
_MESSAGES_METHOD: Final = (
    'messages(self, task): return [{"role": "user", "content": …}], a list with every message'
)
_GOLD_METHOD: Final = "gold(self, task): return …"
_CLASS_FORM: Final = (
    "a decorated function has no settings: write a class with annotated attributes, such as "
    "difficulty: int = 3"
)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` returns an awaitable: the function, its `__call__` or the function
    that it wraps is async.
    """
    called = getattr(function, "__call__", function)  # noqa: B004  # of an object
    return any(map(inspect.iscoroutinefunction, (function, called, inspect.unwrap(function))))


@dataclass(frozen=True)
class EnvironmentDefinition:
    """An environment: its class with the settings of a run, its name and the folder of its file."""

    cls: type[Environment]
    name: str
    folder: Path = field(default_factory=Path)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings with their values."""
    files: AuthorFiles = field(default_factory=AuthorFiles, repr=False, compare=False)
    """Read the author's code."""

    @classmethod
    def of(
        cls,
        subject: Any,
        *,
        name: str = "",
        folder: Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the definition of a class or of a decorated function.

        `settings`: values that replace those of the class. Raises ConfigError: it is no
        environment, has no `verify`, a setting does not fit, or an attribute is a slip.
        """
        own_class = class_of(subject)
        if own_class is None:
            raise ConfigError(
                f"{subject!r} is not an environment",
                hint="subclass palestra.Environment, or decorate a function with "
                "@palestra.environment",
            )
        files = AuthorFiles()
        refuse_slips(own_class, Environment, files, partial(_place_in, own_class, files))
        values = checked(
            own_class,
            Environment,
            settings or {},
            how_to_add=_CLASS_FORM if hasattr(own_class, FUNCTION_MARK) else _ATTRIBUTE,
        )
        defaults = {key: getattr(own_class, key) for key in settings_of(own_class, Environment)}
        configured: Any = type(
            own_class.__name__,
            (own_class,),
            {
                **values,
                **_as_functions(own_class),
                "__module__": own_class.__module__,
                "__doc__": own_class.__doc__,
            },
        )
        label = name or own_class.__name__
        definition = cls(configured, label, folder or Path(), {**defaults, **values}, files)
        definition._check_parts()
        return definition

    def _check_parts(self) -> None:
        cls = self.cls
        if not self.has(VERIFY):
            raise ConfigError(
                f"{self.location(VERIFY)}{self.name} has no verify: nothing says how good an answer is",
                hint="def verify(self, answer, task): return …",
            )
        refuse_missing_self(cls, FILLED, self.tools)
        refuse_wrong_values(cls, self.name, self.location)
        self._refuse_uncallable()
        awaited = [name for name in _NEVER_AWAITED if self.has(name) and is_async(self.plain(name))]
        if awaited:
            raise ConfigError(
                f"{self.location(awaited[0])}{self.name}: {awaited[0]} must be a plain function, not async"
            )
        if problem := weights_problem(cls.weights):
            raise ConfigError(
                f"{self.location('weights')}{self.name}: {problem}",
                hint='weights = {"correct": 1.0}',
            )
        if cls.weights and returns_only_numbers(self.plain(VERIFY), self._code(VERIFY)):
            raise ConfigError(
                f"{self.location('weights')}{self.name} has weights, but its verify returns a number, so that they have no "
                "effect",
                hint=how_to_use(cls.weights),
            )
        reserved_names = sorted(OWN_PATHS & self.tools.keys())
        if reserved_names:
            raise ConfigError(
                f"{self.location(reserved_names[0])}{self.name}: a tool cannot be named "
                f"{reserved_names[0]}, which is a path of the server",
                hint="give the method another name",
            )
        self._refuse_untyped_tools()
        refuse_unreadable_types(self.tools)
        self._refuse_all_unawaited()
        for name in (START, VERIFY, REPLY, *self.tools):
            if self.has(name):
                filled_names = FILLED.get(name, frozenset())
                refuse_slips_in_code(self.plain(name), self._code(name), name, filled_names)
        self._refuse_wrong_calls()
        limit = cls.max_turns
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, int) or limit < 1
        ):
            raise ConfigError(
                f"{self.location('max_turns')}{self.name}: max_turns must be a number from 1 on, not "
                f"{limit!r}"
            )

    def _refuse_wrong_calls(self) -> None:
        """Raise ConfigError when a method calls the judge or the sandbox in a way that must fail."""
        for name, code in self._methods.items():
            refuse_wrong_calls(self.cls, code, name)

    def _refuse_all_unawaited(self) -> None:
        """Raise ConfigError when some function uses the call of an async function without await."""
        entries = [name for name in (*FILLED, *self.tools) if name in self._owners]
        helpers = [name for name in self._owners if name not in entries]
        for name in (*helpers, *entries):  # a helper may be why an entry is wrong
            self._refuse_unawaited(name)
        functions = [vars(owner)[name] for name, owner in self._owners.items()]
        for function in self._async_calls.functions_used(functions):
            refuse_unawaited(
                self.files.code_of(function),
                function.__name__,
                has_judge=True,
                is_coroutine=self._async_calls.in_code_of(function),
                outer_names=outer_names_of(function),
            )

    def _refuse_unawaited(self, name: str) -> None:
        """Raise ConfigError when a method uses the call of an async function without await."""
        function = vars(self._owners[name])[name]
        is_entry = name in (*FILLED, *self.tools)
        is_run = name in (START, VERIFY, REPLY, *self.tools)
        code = self.files.code_of(function)
        refuse_unawaited(
            code,
            name,
            has_judge=not is_run
            or is_async(self.plain(name))
            or self.has_state
            or not self.cls.isolated,
            is_coroutine=self._async_calls.in_code_of(function),
            use=MethodUse(
                is_awaited=name not in _NEVER_AWAITED,
                is_final=is_entry and not hasattr(function, "__wrapped__"),
            ),
            outer_names=outer_names_of(function),
        )

    def location(self, name: str) -> str:
        """Return `FILE:LINE: `, where the author's code sets the attribute or method `name`."""
        return _place_in(self.cls, self.files, name)

    def _refuse_uncallable(self) -> None:
        """Raise ConfigError when a method cannot be called in the way that a rollout calls it."""
        refuse_uncallable_init(self.cls)
        for name in (*filter(self.has, FILLED), *self.tools):
            refuse_positional_only(name, self.plain(name), getattr(self._unused, name))
            if name not in _MAY_YIELD:
                refuse_yield(name, self.plain(name))

    def _refuse_untyped_tools(self) -> None:
        untyped = {name: untyped_parameters(function) for name, function in self.tools.items()}
        problems = [
            f"{place_of(self.tools[tool])}the tool {tool} has no type for {', '.join(parameters)}"
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
        for name, function in self.tools.items():
            if spread := spread_parameters(function):
                raise ConfigError(
                    f"{place_of(function)}the tool {name} takes {' and '.join(spread)}, which the model "
                    "cannot fill: it sees named parameters",
                    hint="write a parameter with a type for each thing that the model may pass",
                )

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each tool without a docstring, or with a name that some providers
        refuse, for methods that forgot their return, and for conversations without an end.
        """
        undescribed = (
            f"{place_of(function)}the tool {name} has no docstring, so the model sees no description"
            for name, function in self.tools.items()
            if not has_description(function)
        )
        refused = (
            f"{place_of(function)}the tool {name} has a name that OpenAI and Anthropic refuse: "
            f"{TOOL_NAME_RULE}"
            for name, function in self.tools.items()
            if not is_tool_name(name)
        )
        return (*undescribed, *refused, *self._forgotten_returns(), *self._endless())

    def _forgotten_returns(self) -> Iterator[str]:
        """Yield a sentence for each method that returns nothing where a value is wanted."""
        for name, function in self.tools.items():
            kind = promised_value(function)
            if kind and never_returns_a_value(function, self._code(name)):
                yield (
                    f"{place_of(function)}the tool {name} returns nothing, and its annotation promises "
                    f"{kind}: write return"
                )
        for name, effect in _WITHOUT_VALUE.items():
            if self.has(name) and never_returns_a_value(self.plain(name), self._code(name)):
                yield f"{self._code(name).place}{name} returns nothing, so that {effect}: write return"

    def _endless(self) -> Iterator[str]:
        """Yield a sentence when neither `reply` nor a limit ends a conversation."""
        if (
            self.takes_turns
            and self.cls.max_turns is None
            and always_returns_text(self.plain(REPLY), self._code(REPLY))
        ):
            yield (
                f"{self._code(REPLY).place}reply never returns None, and there is no max_turns: a "
                "conversation goes on until the model's context or the rollout's time is used up; "
                "write max_turns = 5, or return None when it shall end"
            )

    def _unasked(self, rows: Sequence[JsonObject], row_places: RowPlaces) -> Iterator[str]:
        """Yield a sentence for each template that says None in some rows, and for an empty prompt."""
        prompt = None if self.has(MESSAGES) else self._prompt
        for template in filter(None, (prompt, self._system)):
            for name, numbers in template.null_fields(rows).items():
                yield (
                    f"{template.name} says None in {row_places.counted(numbers, len(rows))}, where "
                    f"{name} is null; write a text there, or leave these rows out"
                )
        if prompt is not None and (numbers := prompt.blank_rows(rows)):
            fields = f" with an empty {' and '.join(prompt.fields())}" if prompt.fields() else ""
            yield (
                f"{prompt.name} is empty in {row_places.counted(numbers, len(rows))}{fields}; write "
                "a text there, or leave these rows out"
            )
        if prompt is not None and len(rows) > 1 and self._asks_alike:
            yield (
                f"{prompt.name} names no field of the rows, such as {{question}}: every row is asked "
                "the same"
            )

    def _shadowed(self, rows: Iterable[JsonObject]) -> Iterator[str]:
        """Yield a sentence for each parameter that a field of `rows` seems to fill, but does not."""
        # A response that is a mapping is the trajectory of an earlier run.
        fields = frozenset(
            name
            for row in rows
            for name, value in row.items()
            if name != RESPONSE or not isinstance(value, Mapping)
        )
        for name, filled_names in FILLED.items():
            if self.has(name):
                parameters = filled_names & self.parameters(name).names
                yield from shadowed_fields(
                    name, self._code(name), parameters, fields, self._methods
                )

    def _compared(self, rows: Sequence[JsonObject]) -> Iterator[str]:
        """Yield a sentence for each number of `rows` that the code compares with the answer's text."""
        for name in (VERIFY, REPLY):
            if self.has(name) and not hasattr(self.plain(name), "__wrapped__"):
                yield from compared_numbers(self._code(name), self.parameters(name).names, rows)

    def has(self, name: str) -> bool:
        """Whether the author has written the method `name`."""
        return callable(getattr(self.cls, name, None))

    def plain(self, name: str) -> Any:
        """Return the author's function, as an attribute of the class."""
        return getattr(self.cls, name)

    def _code(self, name: str) -> AuthorCode:
        """Return the code of the author's function `name`."""
        return self.files.code_of(self.plain(name))

    @cached_property
    def _methods(self) -> dict[str, AuthorCode]:
        """The code of each function of the author's class and its bases, by name."""
        return {name: self.files.code_of(vars(owner)[name]) for name, owner in self._owners.items()}

    @cached_property
    def _owners(self) -> dict[str, type[Any]]:
        """The class that has each function of the author's class and its bases, by name."""
        owners = [owner for owner in self.cls.__mro__ if owner not in Environment.__mro__]
        last_owners = {name: owner for owner in reversed(owners) for name in vars(owner)}
        return {
            name: owner
            for name, owner in last_owners.items()
            if code_of(vars(owner)[name]) is not None
        }

    @cached_property
    def _async_calls(self) -> AsyncCalls:
        """Which calls of the author's code return a coroutine."""
        return AsyncCalls(self.cls, self._methods, self.files)

    def parameters(self, name: str) -> Parameters:
        """Return the parameters of the author's method `name`, without `self`."""
        own_name = getattr(self.plain(name), "__name__", name)
        label = own_name if self.is_function else f"{self.cls.__name__}.{name}"
        return Parameters.of(getattr(self._unused, name), label, self.location(name))

    @property
    def is_function(self) -> bool:
        """Whether the environment is a decorated function, so that there is no object."""
        return hasattr(self.cls, FUNCTION_MARK)

    @cached_property
    def _unused(self) -> Environment:
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

    # Rows

    def rows(
        self,
        records: Iterable[JsonObject] | None = None,
        *,
        cache: Path = Path(),
        files: tuple[Path, ...] = (),
        warn: Callable[[str], object] | None = None,
    ) -> Iterator[JsonDict]:
        """Yield the task rows: of `records`, else of `data`. `cache`: where rows of the hub are kept.
        `files`: the files of the records, for messages. `warn`: gets a sentence for each field that
        no parameter gets, although one has its name, and for what else is most likely a slip.

        Raises InputDataError: rows lack fields that the prompt or a method asks for, have fields that
        the verify response adds, or values that a parameter's type hint excludes.
        """
        if records is None:
            raw_rows = self.records(cache)
            self._refuse_reserved(raw_rows)
            row_places = RowPlaces.of_data(self.cls.data, self.folder)
        else:  # they may be rows of an earlier run
            raw_rows = list(records)
            row_places = RowPlaces(files)
        # Rows of a file have their line; those of `records` are not the author's.
        data_place = "" if records is not None or row_places.files else self.location(DATA)
        fields = [task_fields(row) for row in raw_rows]
        try:
            self._check(raw_rows, fields, row_places)
        except InputDataError as error:
            if advice := row_places.missing_header(fields):
                error.hint = advice
            raise
        if warn is not None:
            for sentence in (
                *self._shadowed(raw_rows),
                *self._unasked(fields, row_places),
                *self._compared(fields),
            ):
                warn(sentence)
            if records is None and (equal_rows := _equal_rows(raw_rows)):
                verb = "equals" if equal_rows == 1 else "equal"
                warn(
                    f"{equal_rows} of the {len(raw_rows)} rows of {self.name} {verb} an earlier one: "
                    "equal rows are one task, with more rollouts"
                )
        tools = orjson.loads(encode_json([tool_schema(tool) for tool in self.tools.values()]))
        for number, (row, own_fields) in enumerate(zip(raw_rows, fields, strict=True)):
            label = partial(_row_label, data_place, self.name, row_places, number)
            # The prompt shows what the verifier gets.
            plain_fields = plain_row(own_fields, label)
            params = dict(row.get(CREATE_PARAMS) or {})
            messages = self._messages(plain_fields, number)
            if messages is not None:
                params["input"] = messages
            params = plain_row(to_plain(params), partial(label, f"{CREATE_PARAMS} of "))
            if tools:
                params["tools"] = tools
            yield {CREATE_PARAMS: params, **plain_fields}

    def _refuse_reserved(self, rows: Sequence[JsonObject]) -> None:
        reserved = reserved_fields(name for row in rows for name in row)
        if reserved:
            raise InputDataError(
                f"{self.location(DATA)}the rows of {self.name} have a field {reserved[0]!r}, which the scored row has too",
                hint="rename the field",
            )

    def records(self, cache: Path = Path()) -> list[JsonObject]:
        """Return the rows of `data`. Raises InputDataError: they cannot be read."""
        data = self.cls.data
        if callable(data) and inspect.signature(data).parameters:
            data = self.made(RolloutServices()).data  # a method, which reads settings of `self`
            refuse_unfilled(data, self.name)
        return rows_of(
            data, folder=self.folder, owner=self.name, cache=cache, location=self.location(DATA)
        )

    def _check(
        self, rows: Sequence[JsonObject], fields: Sequence[JsonObject], row_places: RowPlaces
    ) -> None:
        refuse_missing_self(self.cls, FILLED, (), frozenset[str]().union(*fields))
        for name, filled_names in FILLED.items():
            if self.has(name):
                self.parameters(name).check(fields, filled_names, row_places)
        for template in filter(None, (*self._templates, self._gold)):
            template.check(fields, row_places)
        lacking = [n for n, row in enumerate(rows) if not _has_input(row)]
        if lacking and not self._has_prompt:
            raise InputDataError(
                f"{self.location('prompt')}{self.name} has no prompt, and {row_places.of(lacking[0])} has no {CREATE_PARAMS}.input",
                hint='prompt = "{question}", or write messages(self, task)',
            )

    @property
    def _asks_alike(self) -> bool:
        """Whether nothing that the model gets depends on the row."""
        return not (self.has_state or any(template.fields() for template in self._templates))

    @property
    def _has_prompt(self) -> bool:
        return bool(self.cls.prompt) or self.has(MESSAGES)

    @property
    def _templates(self) -> tuple[Template, ...]:
        return tuple(filter(None, (self._prompt, self._system)))

    @cached_property
    def _prompt(self) -> Template | None:
        template = self._template("prompt", f"the prompt of {self.name}", _MESSAGES_METHOD)
        return None if template is None else replace(template, asks=True)

    @cached_property
    def _system(self) -> Template | None:
        return self._template("system", f"the system message of {self.name}", _MESSAGES_METHOD)

    @cached_property
    def _gold(self) -> Template | None:
        return self._template(GOLD, f"gold of {self.name}", _GOLD_METHOD, as_json=True)

    def _template(
        self, attribute: str, label: str, method: str, *, as_json: bool = False
    ) -> Template | None:
        """Return the text of an attribute as a template; None without one."""
        text = getattr(self.cls, attribute, None)
        if not isinstance(text, str) or not text:
            return None
        return Template(
            text, label, self.location(attribute), as_json, self._attributes, f"def {method}"
        )

    @property
    def _attributes(self) -> frozenset[str]:
        """What the author's class sets besides its methods and what `Environment` has."""
        owners = [owner for owner in self.cls.__mro__ if owner not in Environment.__mro__]
        names = frozenset(name for owner in owners for name in vars(owner))
        return frozenset(
            name
            for name in names - frozenset(dir(Environment))
            if not name.startswith("_") and not callable(getattr(self.cls, name))
        )

    def _messages(self, row: JsonObject, number: int) -> list[JsonDict] | None:
        """Return the messages of a row; None when the row brings its own."""
        if self.has(MESSAGES):
            returned = self.call_plainly(MESSAGES, row, where=f"row {number}")
            messages = checked_messages(returned, self.name, number, self.location(MESSAGES))
        elif self._prompt is not None:
            messages = [{"role": "user", "content": self._prompt.filled(row, number)}]
        else:
            return None
        if self._system is not None:
            messages.insert(0, {"role": "system", "content": self._system.filled(row, number)})
        return messages

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
                f"{error}"
            ) from error
        if call := unawaited_call(returned):
            raise InputDataError(
                f"{self.location(name)}{name} of {self.name} returned {call}",
                hint=f"{name} is not awaited: call plain functions in it, without async",
            )
        return returned

    def gold(self, row: JsonObject) -> Response | None:
        """Return the right answer to a task row; None when the author has not given one."""
        own_fields = task_fields(row)
        if self._gold is not None:
            return response_of(self._gold.filled(own_fields, 0))
        if not self.has(GOLD):
            return None
        returned = self.call_plainly(GOLD, own_fields, where="a row")
        if returned is None or isinstance(returned, Response):
            return returned
        items = [returned]
        if isinstance(returned, Iterable) and not isinstance(returned, str | Mapping | WireModel):
            items = list(returned)
        if not all(isinstance(item, str | WireModel) for item in items):
            raise InputDataError(
                f"{self.location(GOLD)}gold of {self.name} returned {short_repr(returned)}",
                hint='return a text, or calls and texts: [call("take", name="apple"), "Done."]',
            )
        return response_of(*items)


def _place_in(cls: type[Environment], files: AuthorFiles, name: str) -> str:
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


def _as_functions(cls: type[Environment]) -> dict[str, Any]:
    """Return the tools and the methods of an author's class that are no plain functions there, as
    functions. A static or class method that is no tool stays what it is.
    """
    functions = {
        name: function
        for name, function in tools_of(cls).items()
        if inspect.getattr_static(cls, name) is not function
    }
    for name in FILLED:
        member = inspect.getattr_static(cls, name, None)
        if member is not None and not isinstance(member, str):
            refuse_form(cls, name)
            if is_partial_or_object(member):
                functions[name] = as_function(cls, name)
    return functions


def _equal_rows(rows: Sequence[JsonObject]) -> int:
    """Return how many rows are equal to an earlier one."""
    try:
        texts = {orjson.dumps(row, default=str, option=_SORTED) for row in rows}
    except TypeError:  # what is no JSON is reported with its row
        return 0
    return len(rows) - len(texts)


def _has_input(row: JsonObject) -> bool:
    params = row.get(CREATE_PARAMS)
    return isinstance(params, Mapping) and bool(params.get("input"))


def _row_label(
    location: str, owner: str, row_places: RowPlaces, number: int, part: str = ""
) -> str:
    return f"{location}{owner}: {part}{row_places.of(number)}"

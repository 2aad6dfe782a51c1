"""The task rows of an environment: read, checked against its class, and with their prompts."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import orjson

from palestra.errors import InputDataError
from palestra.schema import (
    CREATE_PARAMS,
    JsonDict,
    JsonObject,
    Response,
    WireModel,
    encode_json,
    response_of,
    short_repr,
    to_plain,
)
from palestra.server.environments.author_class import (
    DATA,
    FILLED,
    GOLD,
    MESSAGES,
    REPLY,
    VERIFY,
    AuthorClass,
)
from palestra.server.environments.environment import Environment
from palestra.server.environments.method_checks import refuse_missing_self
from palestra.server.environments.number_comparisons import compared_numbers
from palestra.server.environments.parameters import RESPONSE
from palestra.server.environments.prompts import Template, checked_messages
from palestra.server.environments.records import RowPlaces, plain_row, refuse_unfilled, rows_of
from palestra.server.environments.services import RolloutServices
from palestra.server.environments.shadowed_fields import shadowed_fields
from palestra.server.environments.task import reserved_fields, task_fields
from palestra.server.tools import tool_schema

_SORTED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_MESSAGES_METHOD: Final = (
    'messages(self, task): return [{"role": "user", "content": …}], a list with every message'
)
_GOLD_METHOD: Final = "gold(self, task): return …"


@dataclass(frozen=True)
class EnvironmentRows:
    """Makes the task rows of one environment."""

    author: AuthorClass

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
            row_places = RowPlaces.of_data(self.author.cls.data, self.author.folder)
        else:  # they may be rows of an earlier run
            raw_rows = list(records)
            row_places = RowPlaces(files)
        # Rows of a file have their line; those of `records` are not the author's.
        data_place = "" if records is not None or row_places.files else self.author.location(DATA)
        fields = [task_fields(row) for row in raw_rows]
        try:
            self._check(raw_rows, fields, row_places)
        except InputDataError as error:
            if advice := row_places.missing_header(fields):
                error.hint = advice
            raise
        if warn is not None:
            for sentence in self._slips(raw_rows, fields, row_places):
                warn(sentence)
            if records is None and (equal_rows := _equal_rows(raw_rows)):
                verb = "equals" if equal_rows == 1 else "equal"
                warn(
                    f"{equal_rows} of the {len(raw_rows)} rows of {self.author.name} {verb} an earlier one: "
                    "equal rows are one task, with more rollouts"
                )
        tools = orjson.loads(
            encode_json([tool_schema(tool) for tool in self.author.tools.values()])
        )
        for number, (row, own_fields) in enumerate(zip(raw_rows, fields, strict=True)):
            label = partial(_row_label, data_place, self.author.name, row_places, number)
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
                f"{self.author.location(DATA)}the rows of {self.author.name} have a field {reserved[0]!r}, which the scored row has too",
                hint="rename the field",
            )

    def records(self, cache: Path = Path()) -> list[JsonObject]:
        """Return the rows of `data`. Raises InputDataError: they cannot be read."""
        data = self.author.cls.data
        if callable(data) and inspect.signature(data).parameters:
            data = self.author.made(
                RolloutServices()
            ).data  # a method, which reads settings of `self`
            refuse_unfilled(data, self.author.name)
        return rows_of(
            data,
            folder=self.author.folder,
            owner=self.author.name,
            cache=cache,
            location=self.author.location(DATA),
        )

    def _check(
        self, rows: Sequence[JsonObject], fields: Sequence[JsonObject], row_places: RowPlaces
    ) -> None:
        refuse_missing_self(self.author.cls, FILLED, (), frozenset[str]().union(*fields))
        for name, filled_names in FILLED.items():
            if self.author.has(name):
                self.author.parameters(name).check(fields, filled_names, row_places)
        for template in filter(None, (*self._templates, self._gold)):
            template.check(fields, row_places)
        lacking = [n for n, row in enumerate(rows) if not _has_input(row)]
        if lacking and not self._has_prompt:
            raise InputDataError(
                f"{self.author.location('prompt')}{self.author.name} has no prompt, and {row_places.of(lacking[0])} has no {CREATE_PARAMS}.input",
                hint='prompt = "{question}", or write messages(self, task)',
            )

    def _slips(
        self, rows: Sequence[JsonObject], fields: Sequence[JsonObject], row_places: RowPlaces
    ) -> Iterator[str]:
        """Yield a sentence for what is most likely a slip. `fields`: the task fields of `rows`."""
        yield from self._shadowed(rows)
        yield from self._unasked(fields, row_places)
        yield from self._compared(fields)

    def _unasked(self, rows: Sequence[JsonObject], row_places: RowPlaces) -> Iterator[str]:
        """Yield a sentence for each template that says None in some rows, and for an empty prompt."""
        prompt = None if self.author.has(MESSAGES) else self._prompt
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
            if self.author.has(name):
                parameters = filled_names & self.author.parameters(name).names
                yield from shadowed_fields(
                    name, self.author.code(name), parameters, fields, self.author.methods
                )

    def _compared(self, rows: Sequence[JsonObject]) -> Iterator[str]:
        """Yield a sentence for each number of `rows` that the code compares with the answer's text."""
        for name in (VERIFY, REPLY):
            if self.author.has(name) and not hasattr(self.author.plain(name), "__wrapped__"):
                yield from compared_numbers(
                    self.author.code(name), self.author.parameters(name).names, rows
                )

    @property
    def _asks_alike(self) -> bool:
        """Whether nothing that the model gets depends on the row."""
        return not (self.author.has_state or any(template.fields() for template in self._templates))

    @property
    def _has_prompt(self) -> bool:
        return bool(self.author.cls.prompt) or self.author.has(MESSAGES)

    @property
    def _templates(self) -> tuple[Template, ...]:
        return tuple(filter(None, (self._prompt, self._system)))

    @cached_property
    def _prompt(self) -> Template | None:
        template = self._template("prompt", f"the prompt of {self.author.name}", _MESSAGES_METHOD)
        return None if template is None else replace(template, asks=True)

    @cached_property
    def _system(self) -> Template | None:
        return self._template(
            "system", f"the system message of {self.author.name}", _MESSAGES_METHOD
        )

    @cached_property
    def _gold(self) -> Template | None:
        return self._template(GOLD, f"gold of {self.author.name}", _GOLD_METHOD, as_json=True)

    def _template(
        self, attribute: str, label: str, method: str, *, as_json: bool = False
    ) -> Template | None:
        """Return the text of an attribute as a template; None without one."""
        text = getattr(self.author.cls, attribute, None)
        if not isinstance(text, str) or not text:
            return None
        return Template(
            text, label, self.author.location(attribute), as_json, self._attributes, f"def {method}"
        )

    @property
    def _attributes(self) -> frozenset[str]:
        """What the author's class sets besides its methods and what `Environment` has."""
        owners = [owner for owner in self.author.cls.__mro__ if owner not in Environment.__mro__]
        names = frozenset(name for owner in owners for name in vars(owner))
        return frozenset(
            name
            for name in names - frozenset(dir(Environment))
            if not name.startswith("_") and not callable(getattr(self.author.cls, name))
        )

    def _messages(self, row: JsonObject, number: int) -> list[JsonDict] | None:
        """Return the messages of a row; None when the row brings its own."""
        if self.author.has(MESSAGES):
            returned = self.author.call_plainly(MESSAGES, row, where=f"row {number}")
            messages = checked_messages(
                returned, self.author.name, number, self.author.location(MESSAGES)
            )
        elif self._prompt is not None:
            messages = [{"role": "user", "content": self._prompt.filled(row, number)}]
        else:
            return None
        if self._system is not None:
            messages.insert(0, {"role": "system", "content": self._system.filled(row, number)})
        return messages

    def gold(self, row: JsonObject) -> Response | None:
        """Return the right answer to a task row; None when the author has not given one."""
        own_fields = task_fields(row)
        if self._gold is not None:
            return response_of(self._gold.filled(own_fields, 0))
        if not self.author.has(GOLD):
            return None
        returned = self.author.call_plainly(GOLD, own_fields, where="a row")
        if returned is None or isinstance(returned, Response):
            return returned
        items = [returned]
        if isinstance(returned, Iterable) and not isinstance(returned, str | Mapping | WireModel):
            items = list(returned)
        if not all(isinstance(item, str | WireModel) for item in items):
            raise InputDataError(
                f"{self.author.location(GOLD)}gold of {self.author.name} returned {short_repr(returned)}",
                hint='return a text, or calls and texts: [call("take", name="apple"), "Done."]',
            )
        return response_of(*items)


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

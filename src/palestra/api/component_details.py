"""Everything about one component: its README, its settings, an example row as the model sees it,
and how to run it. `palestra show NAME` prints it.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from palestra.analysis import Entries, prompt_entries
from palestra.api.components import (
    ComponentSummary,
    NamedProvider,
    find_component_named,
    summary_of,
)
from palestra.api.environments import find_target
from palestra.authoring import (
    FileEnvironment,
    InstalledComponent,
    component_settings,
    dataset_files,
)
from palestra.config import search_roots
from palestra.errors import InputDataError, PalestraError
from palestra.fleet import load_server_class
from palestra.records import tools_of
from palestra.schema import JsonDict, JsonObject, read_jsonl
from palestra.server import ServerConfig
from palestra.settings import EvalArgs
from palestra.system import shown


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """A setting of a server."""

    name: str
    type: str
    value: str
    """Its value in the component's config, else its default; empty when it is required."""
    meaning: str


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """A row of a component, as the model sees it."""

    number: int
    """Its position in its file, from 0."""
    source: Path
    row: JsonObject

    @property
    def prompt(self) -> Entries:
        """The messages of the row. Empty for a row that is filled into a prompt file first."""
        return prompt_entries(self.row)

    @property
    def tools(self) -> list[JsonDict]:
        """The tools that the row offers to the model."""
        return tools_of(self.row)


@dataclass(frozen=True, slots=True)
class ComponentDetails:
    """What `palestra show NAME` shows."""

    summary: ComponentSummary
    readme: str
    """The text of its README, else of its docstring."""
    settings: tuple[ServerSetting, ...]
    example: ExampleRow | None
    commands: tuple[str, ...]
    """Commands that run it."""
    config: str
    """The text of its config file; empty without one."""
    notices: tuple[str, ...] = ()
    """Why a part is missing."""

    def to_dict(self) -> JsonDict:
        """Return the fields as JSON values."""
        example = self.example
        return {
            **self.summary.to_dict(),
            "readme": self.readme,
            "settings": [asdict(setting) for setting in self.settings],
            "example": None
            if example is None
            else {
                "number": example.number,
                "source": str(example.source),
                "row": dict(example.row),
                "prompt": [asdict(entry) for entry in example.prompt],
                "tools": [tool.get("name") for tool in example.tools],
            },
            "commands": list(self.commands),
            "config": self.config,
            "notices": list(self.notices),
        }


def component_details(name: str, *, row: int | None = None) -> ComponentDetails:
    """Return everything about the component `name`.

    `row`: the position of the example row, by default 0. Raises ConfigError: there is no such
    component. Raises InputDataError: it has no such row.
    """
    component = find_component_named(name)
    if isinstance(component, FileEnvironment):
        return _of_file(component, row)
    if isinstance(component, NamedProvider):
        return _of_provider(component)
    return _of_folder(component, row)


def _of_provider(provider: NamedProvider) -> ComponentDetails:
    summary = summary_of(provider)
    fields = type(provider.row).model_fields
    values = provider.row.model_dump(mode="json")
    meanings = _meanings(type(provider.row))
    return ComponentDetails(
        summary=summary,
        readme="",
        settings=tuple(
            ServerSetting(
                name, _type_text(fields[name].annotation), str(value), meanings.get(name, "")
            )
            for name, value in values.items()
            if value not in ("", None)
        ),
        example=None,
        commands=(f"palestra eval mcqa --model {summary.name}",),
        config="",
    )


def _of_folder(component: InstalledComponent, row: int | None) -> ComponentDetails:
    summary = summary_of(component)
    readme = component.folder / "README.md"
    notices: list[str] = []
    settings: list[ServerSetting] = []
    try:
        settings = list(_settings(component))
    except PalestraError as error:
        notices.append(f"its settings are unknown: {error.message}")
    config = component.configs[0] if component.configs else None
    return ComponentDetails(
        summary=summary,
        readme=readme.read_text("utf-8", errors="replace") if readme.is_file() else "",
        settings=tuple(settings),
        example=_example(_rows_of_folder(component), summary.name, row),
        commands=tuple(_commands(summary, config)),
        config=config.read_text("utf-8") if config is not None else "",
        notices=tuple(notices),
    )


def _of_file(environment: FileEnvironment, row: int | None) -> ComponentDetails:
    summary = summary_of(environment)
    rows: Iterator[ExampleRow] = iter(())
    notices: list[str] = []
    try:
        target = find_target(EvalArgs(target=str(environment.path)), [])
        rows = (
            ExampleRow(number, environment.path, task)
            for number, task in enumerate(target.rows or ())
        )
    except PalestraError as error:
        notices.append(f"its rows are unknown: {error.message}")
    return ComponentDetails(
        summary=summary,
        readme=""
        if environment.documentation == environment.description
        else environment.documentation,
        settings=tuple(ServerSetting(*setting) for setting in environment.settings),
        example=_example(rows, summary.name, row) if not notices else None,
        commands=tuple(_commands(summary, None)),
        config="",
        notices=tuple(notices),
    )


# Rows


def _rows_of_folder(component: InstalledComponent) -> Iterator[ExampleRow]:
    for path in dataset_files(component, search_roots()):
        for number, line in enumerate(read_jsonl(path)):
            yield ExampleRow(number, path, line.row)


def _example(rows: Iterator[ExampleRow], name: str, number: int | None) -> ExampleRow | None:
    """Return the row at a position. Raises InputDataError: a position was asked for that does not
    exist.
    """
    last = -1
    for row in rows:
        if row.number == (number or 0):
            return row
        last = max(last, row.number)
    if number is not None:
        hint = f"its rows are --row 0 to --row {last}" if last >= 0 else "it has no rows"
        raise InputDataError(f"{name} has no row {number}", hint=hint)
    return None


# Settings


def _settings(component: InstalledComponent) -> Iterator[ServerSetting]:
    """Yield the settings of a component's server: those of its class, with the config's values.

    Raises PalestraError: the code of the server cannot be imported.
    """
    values = component_settings(component)
    app = component.folder / "app.py"
    if not app.is_file():
        yield from (ServerSetting(k, "", _text(v), "") for k, v in values.items())
        return
    model = load_server_class(app).model_fields["config"].annotation
    if not (inspect.isclass(model) and issubclass(model, BaseModel)):
        return
    meanings = _meanings(model)
    for name, field in model.model_fields.items():
        if name in ServerConfig.model_fields:
            continue
        default = field.get_default(call_default_factory=True, validated_data={})
        value = values.get(name, default)
        yield ServerSetting(
            name,
            _type_text(field.annotation),
            "" if value is PydanticUndefined else _text(value),
            field.description or meanings.get(name, ""),
        )


def _text(value: Any) -> str:
    if value == "???":
        return ""  # it must be set
    if isinstance(value, Mapping) and "name" in value and "type" in value:
        return str(value["name"])  # a reference to a server
    return str(value)


def _type_text(annotation: Any) -> str:
    name = annotation.__name__ if inspect.isclass(annotation) else str(annotation)
    return name.replace("typing.", "").replace("NoneType", "None")


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields of a class and of its bases, by field."""
    meanings: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            try:
                source = textwrap.dedent(inspect.getsource(cls))
            except (OSError, TypeError):
                continue
            [node] = ast.parse(source).body
            meanings |= dict(_field_docstrings(getattr(node, "body", [])))
    return meanings


def _field_docstrings(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield field.target.id, " ".join(below.value.value.split())


# How to run it


def _commands(summary: ComponentSummary, config: Path | None) -> Iterator[str]:
    root = next((r for r in search_roots() if config and config.is_relative_to(r)), None)
    config = config.relative_to(root) if config and root else config
    name = summary.name if config is None or config.parent.name == "configs" else shown(config)
    match summary.kind:
        case "environments":
            yield f"palestra eval {name} --model local"
            yield f"palestra verify-env {name}"
        case "benchmarks":
            yield f"palestra benchmark prepare {summary.name}"
            yield f"palestra eval {name} --model local"
        case "agents":
            yield f"palestra collect --config {config} --agent NAME --input ROWS --output OUT.jsonl"
        case "models":
            yield f"palestra run --config {config}"

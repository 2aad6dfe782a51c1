"""Make the flags of commands from settings models: names, types, defaults, bounds and help.

A settings model is imported when its command is called, so that `palestra --help` stays fast.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NoReturn,
    TypeVar,
    get_args,
    get_origin,
)

import typer
from typer.core import TyperCommand

from palestra.cli.console import fail, guarded, stdout_for_json
from palestra.cli.entry import imported
from palestra.cli.gym.grammar import INPUT, repeated_input
from palestra.cli.usage import UsageError
from palestra.config import Flag, NamedFile, contradicting_override
from palestra.errors import ConfigError

if TYPE_CHECKING:  # it takes as long to import as all of this
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

Flags = dict[str, Any]
"""The flags that the user gave, by the names of the settings."""
OVERRIDES: Final = "overrides"
"""The parameter of the commands that take overrides."""
OWN_SETTINGS: Final = "own_settings"
"""The setting `--set` of the commands that run an environment in one file."""
AS_JSON: Final = "as_json"
"""The setting `--json` of the commands that can print their result as one JSON document."""
JsonFlag = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, all else on stderr.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Overrides of the configuration: key=value, ++key=value, ~key."),
]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="FILE", help="A config file; may be repeated."),
]
Function = TypeVar("Function", bound=Callable[..., None])


def settings_command(
    group: typer.Typer,
    *models: str,
    name: str | None = None,
    required: bool = True,
    optional: Sequence[str] = (),
    without: Sequence[str] = (),
    cls: type[TyperCommand] = TyperCommand,
    **settings: Any,
) -> Callable[[Function], Function]:
    """Add a function to `group` as a command. Its first parameter receives the flags of `models`.

    `models`: names in `palestra.settings`, or `module:Class`. `required`: a setting without a
    default must be a flag; else it may also be an override. `optional`: those that `function` may
    fill itself. `without`: settings that get no flag.
    `cls` and `settings`: the same as for a Typer command.
    """

    def add(function: Function) -> Function:
        @cache
        def make_command() -> Any:
            return _command(function, flags(), settings, models)

        def flags() -> dict[str, inspect.Parameter]:
            parameters: dict[str, inspect.Parameter] = {}
            for model in models:
                for parameter in parameters_of(
                    imported(model), required=required, optional=optional
                ):
                    if parameter.name not in without:
                        parameters.setdefault(parameter.name, parameter)
            return parameters

        def described() -> None:
            """Has the docstring of `function` at run time."""

        described.__name__, described.__doc__ = function.__name__, function.__doc__
        later = type("Later", (_Later, cls), {"made": staticmethod(make_command)})
        group.command(name, cls=later, **settings)(described)
        return function

    return add


class _Later(TyperCommand):
    """A command whose flags are made when they are first needed."""

    made: ClassVar[Callable[[], Any]]

    @property
    def params(self) -> list[Any]:
        """The parameters of the real command, which is made now."""
        parameters: list[Any] = type(self).made().params
        return parameters

    @params.setter
    def params(self, value: list[Any]) -> None:
        """Ignore the parameters that Typer found: its placeholder function has none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words. Raises UsageError: an input is named twice, of which one would be lost."""
        for option in self.params:
            names = [*option.opts] if INPUT in option.opts and not option.multiple else []
            inputs = [word for word in args if word.partition("=")[0] in names]
            if len(inputs) > 1:
                raise UsageError(repeated_input(inputs[-1].partition("=")[0]), ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the real command with the parsed arguments."""
        return type(self).made().invoke(ctx)


def run(function: str, model: str, flags: Flags, *arguments: Any) -> NoReturn:
    """Call `function` (`module:attribute`) with the settings of `model`, and exit with its code."""

    def command() -> int:
        from palestra.settings import args_from

        code: int = imported(function)(args_from(imported(model), flags), *arguments)
        return code

    guarded(command)


def _command(
    function: Callable[..., None],
    flags: Mapping[str, inspect.Parameter],
    settings: dict[str, Any],
    models: Sequence[str],
) -> Any:
    """Return the Typer command with the models' flags and the parameters of `function`."""
    _, *own_parameters = inspect.signature(function, eval_str=True).parameters.values()

    def call(**values: Any) -> None:
        used = {name: value for name in flags if (value := values.pop(name)) is not None}
        if used and (overrides := values.get(OVERRIDES)):
            _refuse_contradictions(used, overrides, models)
        if OWN_SETTINGS in flags and values.get(OVERRIDES):
            _refuse_settings(values[OVERRIDES])
        with stdout_for_json() if used.get(AS_JSON) else nullcontext():
            function(used, **values)

    keyword_only = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in [*flags.values(), *own_parameters]
    ]
    call.__dict__["__signature__"] = inspect.Signature(keyword_only)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword_only}
    call.__doc__ = function.__doc__
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(**settings)(call)
    return typer.main.get_command(app)


def _refuse_settings(overrides: Sequence[str]) -> None:
    """Exit with an error when an override is a setting of an environment in one file."""
    from palestra.cli.setting_words import refuse_settings_among

    try:
        refuse_settings_among(overrides, sys.argv[1:])
    except ConfigError as error:
        fail(error)


def _refuse_contradictions(
    flags: Mapping[str, Any], overrides: Sequence[str], models: Sequence[str]
) -> None:
    """Exit with an error when a flag and an override give one setting two values."""
    from palestra.settings import COMMAND_SETTINGS, REQUEST_FLAGS, flags_of, is_typed

    for name, value in flags.items():
        setting = REQUEST_FLAGS.get(name) or (name if name in COMMAND_SETTINGS else "")
        override = contradicting_override(setting, value, overrides) if setting else ""
        if override:
            names = [flag for model in models for flag in flags_of(imported(model), name)]
            typed = next((flag for flag in names if is_typed(flag, sys.argv[1:])), names[0])
            fail(
                ConfigError(
                    f"{typed} and {override} give two values to one setting",
                    hint=f"leave {typed} or the override out",
                )
            )


def parameters_of(
    model: "type[BaseModel]", *, required: bool = True, optional: Sequence[str] = ()
) -> Iterator[inspect.Parameter]:
    """Yield one Typer parameter for each field that has a description: own fields first, then
    inherited.
    """
    own_fields = model.__annotations__
    fields = model.__pydantic_fields__.items()  # a pydantic dataclass has them, too
    for name, field in sorted(fields, key=lambda item: item[0] not in own_fields):
        if field.description:
            must_be_flag = required and name not in optional
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=... if must_be_flag and field.is_required() else None,
                annotation=_annotation(name, field, required=must_be_flag),
            )


def _annotation(name: str, field: "FieldInfo", *, required: bool) -> Any:
    spelling = next((item for item in field.metadata if isinstance(item, Flag)), Flag())
    kind = flag_type(field.annotation)
    names = spelling.names
    if kind is bool and not names and field.default is False:
        names = (f"--{name.replace('_', '-')}",)  # and no `--no-` beside it
    about: dict[str, Any] = {"help": _help(field), "metavar": spelling.metavar}
    if not spelling.argument:
        about["metavar"] = spelling.metavar or _metavar(field, kind)
    if kind in (int, float):
        if spelling.metavar:
            kind = str  # words are values, too
        elif required:  # else the model is asked about flags and overrides together
            about |= _bounds(field)
    if not (required and field.is_required()):
        kind = kind | None
    if spelling.argument:
        return Annotated[kind, typer.Argument(**about)]
    return Annotated[kind, typer.Option(*names, **about)]


_METAVARS: Final[Mapping[Any, str]] = {int: "N", float: "NUMBER"}
_SECONDS: Final = "Seconds"
"""How the description of a number of seconds begins."""


def _metavar(field: "FieldInfo", kind: Any) -> str | None:
    """Return what the help shows for the value of a flag; None for a switch."""
    if kind is bool:
        return None
    if choices := _choices(field.annotation):
        return "|".join(choices)
    if kind is float and (field.description or "").startswith(_SECONDS):
        return "SECONDS"
    return _METAVARS.get(
        kind, "PATH" if isinstance(kind, type) and issubclass(kind, Path) else "TEXT"
    )


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the only values of a setting; empty when there may be others."""
    if get_origin(annotation) is Annotated:
        return _choices(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return _choices(kinds[0]) if len(kinds) == 1 else ()


def _bounds(field: "FieldInfo") -> dict[str, Any]:
    return {
        bound: limit
        for bound, attribute in (("min", "ge"), ("max", "le"))
        for item in field.metadata
        if (limit := getattr(item, attribute, None)) is not None
    }


def _help(field: "FieldInfo") -> str:
    text = field.description or ""
    default = None if field.default_factory else field.default
    if field.is_required() or default in (None, "", ()) or default is False:
        return text
    if default is True:
        return f"{text.removesuffix('.')}; on by default."
    default_text = f"{default:g}" if isinstance(default, float) else str(default)
    return f"{text.removesuffix('.')}; default {default_text}."


def flag_type(annotation: Any) -> Any:
    """Return the command-line type of a field. A field with several types is a text; the model
    checks it.
    """
    if get_origin(annotation) is Annotated:
        return flag_type(get_args(annotation)[0])
    if get_origin(annotation) in (tuple, list, Mapping):
        return list[str]
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    if any(get_origin(kind) is list for kind in kinds):
        return list[str]
    if get_origin(annotation) is Literal or len(kinds) > 1:
        return str
    return flag_type(kinds[0]) if kinds else annotation


def with_configs(configs: list[str] | None, overrides: list[str] | None) -> list[str]:
    """Return the overrides, with one in front that names the files of `--config`.

    A word such as `shelf.py` or `shelf.py:Shelf` is a config file too: an environment.
    """
    words = [*(overrides or ())]
    files = [word for word in words if "=" not in word and NamedFile.parse(word) is not None]
    paths = [*(configs or ()), *files]
    config_override = [f"+config_paths=[{','.join(map(_quoted, paths))}]"] if paths else []
    return [*config_override, *(word for word in words if word not in files)]


def _quoted(text: str) -> str:
    """Return `text` quoted, as the value of an override."""
    return "'" + text.replace("'", "\\'") + "'"

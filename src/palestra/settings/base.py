"""The base classes of command settings, and the validation of settings."""

from pathlib import Path
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from palestra.config import PACKAGE_ROOT, ConfigTree, Flag, flag, resolve_path
from palestra.errors import ConfigError

Args = TypeVar("Args", bound=BaseModel)
HOW_TO_GIVE: Final = "give a setting by its flag, as +name=value, or as a line of env.yaml"


class Settings(BaseModel):
    """The settings of a command. A field with a description is also a flag.

    The validator of a model is built on first use, because a command's help only needs the fields.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class JsonArgs(Settings):
    """The settings of a command that can also print its result as JSON."""

    as_json: Annotated[bool, flag("--json")] = Field(default=False, description="As JSON.")


def args_from(model: type[Args], tree: ConfigTree, *, hint: str = HOW_TO_GIVE) -> Args:
    """Return the command's settings. Raises ConfigError: settings are missing or invalid; the
    message lists all of them.

    `hint`: how to give a missing setting.
    """
    values = {key: value for key, value in tree.items() if value is not None}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    is_missing = any(details["type"] == "missing" for details in errors)
    problems = [_problem(model, details) for details in errors]
    raise ConfigError("; ".join(problems), hint=hint if is_missing or hint != HOW_TO_GIVE else "")


def _problem(model: type[BaseModel], error: ErrorDetails) -> str:
    """Return a message about one missing or invalid setting, or about settings that contradict each
    other.
    """
    sentence = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return sentence
    name = ".".join(str(part) for part in error["loc"])
    spelling = _flag_of(model, error["loc"])
    as_flag = f" ({spelling})" if spelling else ""
    if error["type"] == "missing":
        return f"{name}: is required{as_flag}"
    return f"{name}: {sentence}, got {error['input']!r}{as_flag}"


def _flag_of(model: type[BaseModel], steps: tuple[int | str, ...]) -> str:
    """Return the flag of a setting; empty when the setting is not a flag."""
    field = model.model_fields.get(str(steps[0]))
    if field is None or not field.description:
        return ""
    spelled = next((item for item in field.metadata if isinstance(item, Flag)), Flag())
    if spelled.argument:
        return ""
    return spelled.names[0] if spelled.names else f"--{str(steps[0]).replace('_', '-')}"


def existing_path(path: str) -> Path:
    """Return `path` in the working directory; if it does not exist there, but in the installed
    package, the path in the package.
    """
    return resolve_path(path, Path.cwd(), PACKAGE_ROOT)

"""What all settings of commands have in common, and how they are checked."""

from pathlib import Path
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from palestra.config import PACKAGE_ROOT, ConfigTree, flag, resolve_path
from palestra.errors import ConfigError

Args = TypeVar("Args", bound=BaseModel)
HOW_TO_GIVE: Final = "give a setting as +name=value, or as a flag of `palestra`"


class Settings(BaseModel):
    """Settings of a command. A field with a description is a flag, too.

    The validator of a model is built when it is first used: a command's help needs fields only.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class JsonArgs(Settings):
    """What a command takes that can answer programs, too."""

    as_json: Annotated[bool, flag("--json")] = Field(default=False, description="As JSON.")


def args_from(model: type[Args], tree: ConfigTree, *, hint: str = HOW_TO_GIVE) -> Args:
    """The command's settings. Raises ConfigError listing all that are missing or wrong."""
    values = {key: value for key, value in tree.items() if value is not None}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [_problem(e) for e in error.errors(include_url=False)]
    raise ConfigError("; ".join(problems), hint=hint)


def _problem(error: ErrorDetails) -> str:
    """One setting that is missing or wrong, or settings that do not go together."""
    sentence = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return sentence
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"{name}: is required"
    return f"{name}: {sentence}, got {error['input']!r}"


def existing_path(path: str) -> Path:
    """`path` in the working directory, else in the installed package."""
    return resolve_path(path, Path.cwd(), PACKAGE_ROOT)

"""The settings that commands about an environment have in common: its own, and its models."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from palestra.config import flag
from palestra.errors import ConfigError
from palestra.settings.base import Settings
from palestra.settings.model_names import MODEL_FORMS


def pairs(option: str, items: Any) -> Any:
    """Return a list of KEY=VALUE texts as a mapping; other values unchanged."""
    if not isinstance(items, list):
        return items
    parts = [item.partition("=") for item in items]
    wrong = [
        item for item, (key, equals, _) in zip(items, parts, strict=True) if not (key and equals)
    ]
    if wrong:
        raise ConfigError(f"{option} {wrong[0]!r} is not KEY=VALUE")
    return {key: value for key, _, value in parts}


class OwnSettings(Settings):
    """The settings of an environment itself."""

    own_settings: Annotated[
        Mapping[str, str],
        BeforeValidator(partial(pairs, "--set")),
        flag("--set", metavar="KEY=VALUE"),
    ] = Field(
        default_factory=dict,
        description="A setting of an environment in one file; may be repeated.",
    )


class ModelArgs(OwnSettings):
    """The environment's settings and the models of a command that runs it."""

    model: str | None = Field(
        default=None,
        description=f"{MODEL_FORMS}; or an instance of the configs. Default policy_model of "
        "the configs; without configs, local.",
    )
    judge: str | None = Field(
        default=None,
        description="The model of the environment's judge, as --model; default the policy.",
    )

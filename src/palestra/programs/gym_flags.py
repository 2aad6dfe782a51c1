"""The flags of `gym` commands, and those that several of them share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class FlagKind(StrEnum):
    """What follows a flag."""

    SWITCH = "switch"
    """Nothing: the flag itself is the value true."""
    TEXT = "text"
    """One text, which is a string even where it looks like a number."""
    VALUE = "value"
    """One value in the grammar of overrides: a number, a list, a mapping, or a text."""
    PATHS = "paths"
    """One text; the flag may be repeated."""
    RANGE = "range"
    """Two numbers, the lowest and the highest."""


@dataclass(frozen=True, slots=True)
class GymFlag:
    """A flag of a command. `names`: the long name first."""

    names: tuple[str, ...]
    about: str
    setting: str = ""
    """The key of the override that the flag becomes; empty: the flag is only in
    `Invocation.flags`."""
    kind: FlagKind = FlagKind.TEXT
    metavar: str = ""
    """What the help shows for the value; empty: by its kind."""
    prefix: str = ""
    """The folder of the value, which the override names in front of it: `resources_servers/`. A value
    that already begins with it stays as it is."""
    required: bool = False
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name in `Invocation.flags`: the long name, with underscores and without dashes."""
        return self.names[0].lstrip("-").replace("-", "_")


ENTRYPOINT: Final = GymFlag(
    ("--resources-server",),
    "The resources server, by its folder's name.",
    "entrypoint",
    prefix="resources_servers/",
)
CONFIGS: Final = (
    GymFlag(("--config",), "A config file; repeatable.", kind=FlagKind.PATHS, metavar="FILE"),
)  # fmt: skip
BENCHMARK: Final = GymFlag(
    ("--benchmark",), "The config of a benchmark, by name.", kind=FlagKind.PATHS
)
RESOURCES_SERVER: Final = GymFlag(
    ("--resources-server",), "The config of a resources server, by name.", kind=FlagKind.PATHS
)
MODEL_TYPE: Final = GymFlag(
    ("--model-type",), "The config of a model server, by name.", kind=FlagKind.PATHS
)
SELECTED: Final = (
    BENCHMARK,
    GymFlag(("--environment",), "The config of an environment, by name.", kind=FlagKind.PATHS),
    RESOURCES_SERVER,
    MODEL_TYPE,
)
MODEL: Final = (
    GymFlag(("--model", "-m"), "The name of the model.", "policy_model_name"),
    GymFlag(("--model-url",), "The URL of the model's endpoint.", "policy_base_url"),
    GymFlag(("--model-api-key",), "The key of the model's endpoint.", "policy_api_key"),
)


def switch(name: str, about: str, setting: str = "") -> GymFlag:
    """Return a flag without a value."""
    return GymFlag((name,), about, setting, FlagKind.SWITCH)


def value(names: str, about: str, setting: str) -> GymFlag:
    """Return a flag with a value in the grammar of overrides. `names`: separated by spaces."""
    return GymFlag(tuple(names.split()), about, setting, FlagKind.VALUE)


def text(
    names: str,
    about: str,
    setting: str = "",
    *,
    choices: tuple[str, ...] = (),
    required: bool = False,
) -> GymFlag:
    """Return a flag with a text. `names`: separated by spaces."""
    return GymFlag(tuple(names.split()), about, setting, choices=choices, required=required)

"""Flags that several commands have, and how flags become settings."""

from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Overrides of the configuration: key=value, ++key=value, ~key."),
]
Configs = Annotated[
    list[str] | None, typer.Option("--config", "-c", help="A config file; may be repeated.")
]


def with_configs(configs: list[str] | None, overrides: list[str] | None) -> list[str]:
    """The overrides, after those that name the files of `--config`."""
    named = [f"+config_paths=[{','.join(map(_quoted, configs))}]"] if configs else []
    return [*named, *(overrides or ())]


def _quoted(text: str) -> str:
    """As a value of an override, whatever is in it."""
    return "'" + text.replace("'", "\\'") + "'"

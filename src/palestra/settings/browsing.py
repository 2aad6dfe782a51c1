"""Settings of the commands that show what there is: `list`, `show`, `runs`, `completion`."""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from palestra.config import Flag, flag
from palestra.settings.base import JsonArgs, Settings

_Kind = Literal["environments", "agents", "models", "benchmarks"]


def _plural(kind: Any) -> Any:
    """Return `environments` for `environment`; other values unchanged."""
    plural = f"{kind}s"
    return plural if plural in get_args(_Kind) else kind


class ListArgs(JsonArgs):
    """The arguments of `list`."""

    words: Annotated[tuple[str, ...], Flag(metavar="[WORD]...", argument=True)] = Field(
        default=(), description="Only components that match every word."
    )
    kind: Annotated[
        _Kind | None,
        BeforeValidator(_plural),
        flag("--kind", metavar="KIND"),
    ] = Field(default=None, description="environments, agents, models or benchmarks.")


class ShowArgs(JsonArgs):
    """The arguments of `show`."""

    subject: Annotated[str, Flag(metavar="NAME|RUN", argument=True)] = Field(
        description="An environment, agent, model server or benchmark; or a run: its folder or file."
    )
    rollout: Annotated[str | None, Flag(metavar="[TASK:ROLLOUT]", argument=True)] = Field(
        default=None, description="One rollout of a run, such as 17:3."
    )
    config: bool = Field(default=False, description="Only the config file of NAME.")
    row: int | None = Field(
        default=None, ge=0, description="Which example row of NAME to show, from 0."
    )


class RunsArgs(JsonArgs):
    """The arguments of `runs`."""

    folder: Annotated[Path | None, Flag(metavar="[FOLDER]", argument=True)] = Field(
        default=None, description="Where to look, with the folders in it; default runs/."
    )


class CompletionArgs(Settings):
    """The arguments of `completion`."""

    shell: Annotated[Literal["bash", "zsh", "fish"], Flag(metavar="SHELL", argument=True)] = Field(
        description="bash, zsh or fish."
    )
    install: bool = Field(default=False, description="Write it where the shell looks for it.")

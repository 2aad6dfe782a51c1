"""Settings of `view`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from palestra.config import Flag, flag
from palestra.settings.base import JsonArgs, Settings


class ViewArgs(JsonArgs):
    """The arguments of `view`."""

    paths: Annotated[tuple[str, ...], Flag(metavar="[PATH]... [TASK:ROLLOUT]", argument=True)] = (
        Field(
            default=(),
            description="Outputs, stems, quoted globs, or folders, 4 levels deep; default here. "
            "With --text also one rollout, such as 17:3.",
        )
    )
    filter: Annotated[str, flag("--filter", metavar="QUERY")] = Field(
        default="", description="The query to start with: 'reward<1 tools:search'."
    )
    group_by: str | None = Field(
        default=None, description="A field of the rollout rows to group the tasks by."
    )
    port: int | None = Field(
        default=None, ge=0, le=65_535, description="Default 7717, or the next free one."
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Another address of this machine to answer at.",
    )
    allow_host: Annotated[tuple[str, ...], flag("--allow-host", metavar="NAME")] = Field(
        default=(), description="A host name that requests may use; repeatable."
    )
    no_browser: bool = Field(default=False, description="Only print the address.")
    tokenizer: Path | None = Field(
        default=None, description="A model's folder, to show token ids as text; needs no network."
    )
    as_text: Annotated[bool, flag("--text")] = Field(
        default=False, description="No server: print runs, rollouts, or one rollout."
    )
    export: Path | None = Field(
        default=None, description="Write what matches to one HTML file of at most 10 MB."
    )
    forget: bool = Field(default=False, description="Remove the index of PATH, and end.")


class ViewerArgs(Settings):
    """The settings of `ng_viewer`."""

    jsonl_fpath: str
    server_host: str = Field(default="127.0.0.1", min_length=1)
    server_port: int = Field(default=7860, ge=0, le=65_535)

"""Whether files that were written apart belong to one run, as far as their settings say."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from palestra.datasets import open_rows
from palestra.rollouts.manifest import semantic_differences
from palestra.schema import AGENT_REF, JsonObject, field_of


class _Row(msgspec.Struct):
    agent_ref: Any = msgspec.field(name=AGENT_REF, default=None)


def setting_differences(old: JsonObject, new: JsonObject, files: Iterable[Path]) -> list[str]:
    """Return the differences between the settings of two manifests that the rewards of the rows in
    `files` may depend on, as a resume compares them.

    The files are read only when the settings differ. A file that does not exist has no rows.
    """
    if old == new:
        return []
    agents = {name for file in files if file.exists() for name in _agents_in(file)}
    return semantic_differences(old, new, agents)


def _agents_in(path: Path) -> set[str]:
    """Return the agents of the rows of a file. Lines that are not rows are left out: whoever reads the
    rows reports them.
    """
    decoder = msgspec.json.Decoder(_Row)
    agents: set[str] = set()
    with open_rows(path) as file:
        for line in file:
            try:
                name = field_of(decoder.decode(line).agent_ref, "name")
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            if isinstance(name, str):
                agents.add(name)
    return agents

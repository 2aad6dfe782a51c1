"""What a component is like: the turns it takes, the rows that come with it, what it needs, and its
licences. All of it is read from the files of its folder; nothing is imported.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.authoring.file_sources import SourceTraits, source_traits
from palestra.authoring.inventory import InstalledComponent, server_blocks, yaml_mapping
from palestra.config import FLEET_KEYS, PACKAGE_ROOT
from palestra.schema import CREATE_PARAMS

_EXTRA: Final = re.compile(r"palestra\[([a-z-]+)\]")
_TURNS_AGENTS: Final = frozenset({"gymnasium_agent"})
_TOOLS_AGENTS: Final = frozenset({"mcp_agent"})
_OFFLINE: Final = "offline"
_SHORT_LICENCES: Final = {
    "Creative Commons Attribution 4.0 International": "CC BY 4.0",
    "Creative Commons Attribution-ShareAlike 4.0 International": "CC BY-SA 4.0",
}


class Turns(StrEnum):
    """How a rollout goes on."""

    SINGLE = "single"
    """The model answers once."""
    TOOLS = "tools"
    """The model may call tools before it answers."""
    MULTI = "multi"
    """The environment answers, and the model goes on."""


@dataclass(frozen=True, slots=True)
class ComponentTraits:
    """What an environment or a benchmark is like."""

    turns: Turns
    rows: int
    """The number of rows in the dataset files that exist."""
    makes_rows: bool
    """Whether it makes rows on demand."""
    needs: tuple[str, ...]
    """What must be there to run it: `sandbox`, `judge`, `network`, or `extra NAME`."""
    licences: tuple[str, ...]
    """The licences of its datasets, as declared."""


def turns_of(source: SourceTraits) -> Turns:
    """Return the turns that a source shows."""
    if source.takes_turns:
        return Turns.MULTI
    return Turns.TOOLS if source.has_tools else Turns.SINGLE


def needs_of(source: SourceTraits) -> tuple[str, ...]:
    """Return what a source needs."""
    needs = {
        "sandbox": source.needs_sandbox,
        "judge": source.needs_judge,
        "network": source.needs_network,
    }
    return tuple(name for name, is_needed in needs.items() if is_needed)


def component_traits(component: InstalledComponent, roots: Sequence[Path]) -> ComponentTraits:
    """Return what a component is like. `roots`: where the paths of its datasets are looked up."""
    blocks = list(_blocks(component, roots))
    folders = _server_folders(component, blocks, roots)
    source = SourceTraits()
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            source = source.together(source_traits(path.read_text("utf-8", errors="replace")))
    datasets = [dataset for _, _, block in blocks for dataset in _datasets(block)]
    files = dataset_files(component, roots)
    agents = {name for tree, name, _ in blocks if tree == "responses_api_agents"}
    return ComponentTraits(
        turns=_turns(source, agents, files),
        rows=sum(map(_count_lines, files)),
        makes_rows=any((folder / "rows.py").is_file() for folder in folders),
        needs=(*needs_of(_in_use(source, blocks)), *_extras(folders)),
        licences=_licences(component, datasets),
    )


def dataset_files(component: InstalledComponent, roots: Sequence[Path]) -> list[Path]:
    """Return the files of a component's datasets that exist, those of its own config first."""
    files = [
        path
        for _, _, block in _blocks(component, roots)
        for dataset in _datasets(block)
        if (path := _existing(dataset, roots)) is not None
    ]
    return list(dict.fromkeys(files))


def component_settings(component: InstalledComponent) -> Mapping[str, Any]:
    """Return the settings of a component's own server in its config, without those that only
    describe it or say how it runs.
    """
    tree = yaml_mapping(component.configs[0]) if component.configs else {}
    blocks = [block for _, name, block in server_blocks(tree) if name == component.name]
    return {k: v for block in blocks[:1] for k, v in block.items() if k not in FLEET_KEYS}


Block = tuple[str, str, Mapping[str, Any]]


def _blocks(component: InstalledComponent, roots: Sequence[Path]) -> Iterator[Block]:
    """Yield the servers of the component's first config, and of the configs that it includes."""
    to_read = list(component.configs[:1])
    read_paths: set[Path] = set()
    while to_read:
        path = to_read.pop()
        if path in read_paths:
            continue
        read_paths.add(path)
        tree = yaml_mapping(path)
        yield from server_blocks(tree)
        names = tree.get("config_paths")
        for name in names if isinstance(names, list) else ():
            to_read += [root / str(name) for root in roots if (root / str(name)).is_file()][:1]


def _server_folders(
    component: InstalledComponent, blocks: Sequence[Block], roots: Sequence[Path]
) -> list[Path]:
    """Return the folders with the code of the component's resources servers."""
    folders = [component.folder] if component.kind == "resources-servers" else []
    for tree, name, _ in blocks:
        if tree == "resources_servers":
            matches = [root / tree / name for root in roots if (root / tree / name).is_dir()]
            folders += matches[:1]
    return list(dict.fromkeys(folders))


def _datasets(block: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    datasets = block.get("datasets")
    entries = datasets if isinstance(datasets, list) else []
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _existing(dataset: Mapping[str, Any], roots: Sequence[Path]) -> Path | None:
    name = dataset.get("jsonl_fpath")
    if not isinstance(name, str):
        return None
    return next((path for root in roots if (path := root / name).is_file()), None)


def _turns(source: SourceTraits, agents: set[str], files: Sequence[Path]) -> Turns:
    if agents & _TURNS_AGENTS or source.takes_turns:
        return Turns.MULTI
    if agents & _TOOLS_AGENTS or source.has_tools or any(map(_offers_tools, files)):
        return Turns.TOOLS
    return Turns.SINGLE


def _offers_tools(path: Path) -> bool:
    """Whether the first row of a file offers tools to the model."""
    try:
        with path.open("rb") as file:
            row = orjson.loads(file.readline())
        return bool(row[CREATE_PARAMS].get("tools"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def _in_use(source: SourceTraits, blocks: Sequence[Block]) -> SourceTraits:
    """Return what is needed with the settings of the config: a judge may be switched off, and a
    search may be offline.
    """
    settings = [block for tree, _, block in blocks if tree == "resources_servers"]
    judges = [
        block
        for block in settings
        if block.get("should_use_judge") is not False and any(map(_is_model, block.values()))
    ]
    return SourceTraits(
        needs_sandbox=source.needs_sandbox,
        needs_judge=source.needs_judge or bool(judges),
        needs_network=source.needs_network
        and not any(_OFFLINE in map(str, block.values()) for block in settings),
    )


def _is_model(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") == "responses_api_models"


def _extras(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the extras of Palestra that the READMEs of shipped servers name."""
    names: dict[str, None] = {}
    for folder in folders:
        readme = folder / "README.md"
        if folder.is_relative_to(PACKAGE_ROOT) and readme.is_file():
            names |= dict.fromkeys(_EXTRA.findall(readme.read_text("utf-8", errors="replace")))
    return tuple(f"extra {name}" for name in names)


def _licences(
    component: InstalledComponent, datasets: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    declared = [component.manifest.get("licensing"), *(entry.get("license") for entry in datasets)]
    names = [text for text in declared if isinstance(text, str) and text != "TBD"]
    return tuple(dict.fromkeys(_SHORT_LICENCES.get(name, name) for name in names))

"""Which config files of a fleet a command needs that starts only some of its servers."""

import functools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from palestra.config.overrides import mentioned_in
from palestra.config.paths import SearchPaths
from palestra.config.resolved import ServerType
from palestra.config.sources import CONFIG_PATHS, read_sources
from palestra.config.tree import inherits, leaves, merge
from palestra.errors import BadInput


def files_needed(
    servers: Collection[str],
    config_paths: Sequence[str],
    *,
    apart_from: Collection[str] = (),
    cwd: Path | None = None,
) -> list[str]:
    """Return those of the config files that define one of `servers`, a server that these refer to,
    or a setting that is no server's. All files where that is not certain.

    `apart_from`: servers whose own references are not needed.
    """
    try:
        trees = {path: _tree(path, SearchPaths.of(cwd)) for path in config_paths}
    except BadInput:
        return list(config_paths)
    names = {str(name) for tree in trees.values() for name in tree}
    if not set(servers) <= names:
        return list(config_paths)
    needed: set[str] = set()
    new = set(servers)
    while new:
        needed |= new
        blocks = [(name, tree[name]) for tree in trees.values() for name in new & tree.keys()]
        mentions = (_mentions(block, follows=name not in apart_from) for name, block in blocks)
        new = set[str]().union(*mentions) & names - needed
    return [path for path, tree in trees.items() if _is_needed(tree, needed)]


def _tree(path: str, search_paths: SearchPaths) -> dict[Any, Any]:
    sources, _ = read_sources([(path, "asked for")], search_paths)
    return functools.reduce(merge, (source.tree for source in sources), {})


def _mentions(block: Any, *, follows: bool) -> set[str]:
    """Return what a server's block may refer to. `follows`: with the servers that it names."""
    texts = {leaf for _, leaf in leaves(block) if isinstance(leaf, str)} if follows else set()
    return texts | mentioned_in({"block": block})


def _is_needed(tree: Mapping[Any, Any], needed: set[str]) -> bool:
    return any(
        name in needed or not _is_server(block)
        for name, block in tree.items()
        if name != CONFIG_PATHS
    )


def _is_server(block: Any) -> bool:
    is_mapping = isinstance(block, Mapping)
    return inherits(block) or (is_mapping and any(kind.value in block for kind in ServerType))

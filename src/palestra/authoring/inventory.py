"""Which components there are: the environments, benchmarks, agents and model servers in the search
roots, with what their configs and manifests declare.

Nothing is imported or run, so that a broken component can be listed too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

import yaml

from palestra.authoring.components import ComponentKind, components_in
from palestra.config import SERVER_TREES
from palestra.schema import JsonDict

SIMILAR: Final = 0.70
"""The least similarity of a match, from 0 (none) to 1 (equal)."""
_TREES: Final = {
    "agents": "responses_api_agents",
    "models": "responses_api_models",
    "resources-servers": "resources_servers",
}
_MANIFESTED: Final = {
    "benchmarks": ComponentKind.BENCHMARK,
    "environments": ComponentKind.ENVIRONMENT,
}
_LIFECYCLE: Final = "lifecycle"
_STATUS: Final = "status"


@dataclass(frozen=True, slots=True)
class InstalledComponent:
    """A component that exists in a search root.

    `kind`: benchmarks, environments, agents, models or resources-servers.
    """

    kind: str
    name: str
    folder: Path
    configs: tuple[Path, ...]
    """Its config files. The first one describes the component."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """The fields of its manifest; empty without one."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the server that describes itself: domain, description, value."""

    def fact(self, name: str) -> Any:
        """Return a field of the manifest, else of the config; None without one."""
        return self.manifest.get(name, self.config.get(name))

    @property
    def description(self) -> str:
        return str(self.fact("description") or "")

    def to_dict(self) -> JsonDict:
        """Return the details as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "path": str(self.folder),
            "configs": [str(path) for path in self.configs],
            "domain": self.fact("domain"),
            "description": self.description,
            "manifest": dict(self.manifest) or None,
        }

    def has(self, name: str, text: str) -> bool:
        """Whether the manifest or the config says `text` about the field `name`."""
        if name == "kind" and text == _MANIFESTED.get(self.kind):
            return True
        lifecycle = self.fact(_LIFECYCLE)
        if name == _STATUS and self.fact(_STATUS) is None:
            value = lifecycle.get(_STATUS) if isinstance(lifecycle, Mapping) else lifecycle
        else:
            value = self.fact(name)
        return text.lower() in {word.lower() for word in _texts(value)}


def installed_components(kind: str, roots: Sequence[Path]) -> Iterator[InstalledComponent]:
    """Yield the components of a kind, by name; of several with one name, that of the first root."""
    if kind in _MANIFESTED:
        for component in components_in(roots):
            if component.kind == _MANIFESTED[kind]:
                configs = [component.config, *sorted(component.config.parent.glob("*.yaml"))]
                yield _described(kind, component.name, component.config.parent, configs)
        return
    names: set[str] = set()
    for root in roots:
        for folder in sorted((root / _TREES[kind]).glob("*")):
            configs = sorted(folder.glob("configs/*.yaml"))
            is_server = bool(configs) or (folder / "app.py").is_file()
            if is_server and folder.name not in names:
                names.add(folder.name)
                # The config that is named like its folder describes the server.
                configs.sort(key=lambda path: path.stem != path.parents[1].name)
                yield _described(kind, folder.name, folder, configs)


def similarity(query: str, name: str, domain: str = "", description: str = "") -> float:
    """Return how similar a query is to a component's name or a part of it, from 0 to 1.

    The domain and the description must contain the query: some of their words are similar to any query.
    """
    sought_text, name = query.lower(), name.lower()
    if sought_text in name:
        return 1.0
    if sought_text in description.lower() or sought_text in domain.lower():
        return 0.9
    words = [name, *name.replace("/", "_").split("_")]
    return max(SequenceMatcher(None, sought_text, word).ratio() for word in words)


def yaml_mapping(path: Path) -> Mapping[str, Any]:
    """Return the content of a YAML file; empty when it cannot be read or is no mapping."""
    try:
        # The parser in C: a listing reads every config there is.
        tree = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return tree if isinstance(tree, dict) else {}


def server_blocks(tree: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the tree, the implementation and the settings of each server in a config."""
    for instance in tree.values():
        if not isinstance(instance, Mapping):
            continue
        for server_tree in SERVER_TREES:
            servers = instance.get(server_tree)
            for name, settings in servers.items() if isinstance(servers, Mapping) else ():
                yield server_tree, str(name), settings if isinstance(settings, Mapping) else {}


def _described(kind: str, name: str, folder: Path, configs: Iterable[Path]) -> InstalledComponent:
    files = [
        path
        for path in dict.fromkeys(configs)
        if path.is_file() and path.name not in {"manifest.yaml", "prompt.yaml"}
    ]
    manifest = yaml_mapping(folder / "manifest.yaml")
    blocks = [block for _, _, block in server_blocks(yaml_mapping(files[0]))] if files else []
    config = next((block for block in blocks if "description" in block or "domain" in block), {})
    return InstalledComponent(kind, name, folder, tuple(files), manifest, config)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a field of a manifest."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)

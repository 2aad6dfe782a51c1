"""Find the folders of environments and benchmarks by their names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Final

from palestra.config import ServerType, did_you_mean
from palestra.errors import ConfigError

CONFIG: Final = "config.yaml"
MANIFEST: Final = "manifest.yaml"


class ComponentKind(StrEnum):
    """What a folder with a `config.yaml` and a manifest is."""

    ENVIRONMENT = "environment"
    BENCHMARK = "benchmark"

    @property
    def tree(self) -> str:
        """The folder of a project that contains all folders of this kind."""
        return f"{self}s"


@dataclass(frozen=True, slots=True)
class Component:
    """The folder of an environment or of a benchmark. Either of its two files may be missing."""

    name: str
    kind: ComponentKind
    root: Path
    """The project's folder: paths in the config are relative to it."""
    config: Path
    manifest: Path


def find_component(
    name: str,
    roots: Sequence[Path],
    kinds: Iterable[ComponentKind] = ComponentKind,
    *,
    server_advice: str = "--resources-server {name}",
) -> Component:
    """Return the component with this name. The first root that has it wins.

    `name`: `aime`, `aime/hard` (a flavour: a folder below `aime`, or `aime/hard.yaml`), or with its
    tree, `benchmarks/aime`. `server_advice`: what the hint says to type for a resources server.

    Raises ConfigError: no root has it, or one root has it as an environment and as a benchmark.
    """
    sought_kinds = list(kinds)
    tree, _, bare_name = name.strip("/").partition("/")
    for kind in ComponentKind:
        if tree == kind.tree and bare_name:
            sought_kinds, name = [kind], bare_name
    for root in roots:
        matches = [
            component
            for kind in sought_kinds
            for component in _candidates(name, kind, root)
            if component.config.is_file() or component.manifest.is_file()
        ]
        if len({component.kind for component in matches}) > 1:
            raise ConfigError(
                f"{name!r} is an environment and a benchmark in {root}",
                hint="say which with --kind environment or --kind benchmark",
            )
        if matches:
            return matches[0]
    raise _unknown(name, sought_kinds, roots, server_advice)


def component_at(manifest: Path) -> Component:
    """Return the component whose manifest has this path.

    Raises ConfigError: the file does not exist, or is not `<tree>/<name>/manifest.yaml`.
    """
    path = (manifest / MANIFEST if manifest.is_dir() else manifest).absolute()
    if not path.is_file():
        raise ConfigError(f"the manifest {path} does not exist")
    for kind in ComponentKind:
        for tree in path.parents:
            if tree.name == kind.tree and tree != path.parent:
                name = path.parent.relative_to(tree).as_posix()
                return Component(name, kind, tree.parent, path.with_name(CONFIG), path)
    raise ConfigError(
        f"{path} is in no folder of an environment or a benchmark",
        hint=f"environments/my_env/{MANIFEST}, or benchmarks/my_benchmark/{MANIFEST}",
    )


def components_in(roots: Sequence[Path]) -> Iterator[Component]:
    """Yield every component of the roots, each name and kind once: that of the first root."""
    names: set[tuple[str, str]] = set()
    for root in roots:
        for kind in ComponentKind:
            tree = root / kind.tree
            files = [*tree.glob(f"**/{CONFIG}"), *tree.glob(f"**/{MANIFEST}")]
            for folder in sorted({path.parent for path in files} - {tree}):
                name = folder.relative_to(tree).as_posix()
                if (kind, name) not in names:
                    names.add((kind, name))
                    yield Component(name, kind, root, folder / CONFIG, folder / MANIFEST)


def _candidates(name: str, kind: ComponentKind, root: Path) -> Iterator[Component]:
    path = PurePath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts:
        return
    folder = root / kind.tree / path
    yield Component(name, kind, root, folder / CONFIG, folder / MANIFEST)
    if len(path.parts) > 1:
        flavour = folder.with_name(f"{folder.name}.yaml")
        if flavour.is_file():
            yield Component(name, kind, root, flavour, folder.with_name(MANIFEST))


def _unknown(
    name: str, kinds: Sequence[ComponentKind], roots: Sequence[Path], server_advice: str
) -> ConfigError:
    names = [component.name for component in components_in(roots) if component.kind in kinds]
    what = " or ".join(kinds)
    searched = ", ".join(str(root) for root in roots)
    is_server = any((root / ServerType.RESOURCES / name).is_dir() for root in roots)
    advice = server_advice.format(name=name)
    server = f"{name} is a resources server: {advice}; " if is_server else ""
    return ConfigError(
        f"there is no {what} {name!r}{did_you_mean(name, names)}",
        hint=f"{server}searched in {searched}; --search-dir adds a folder",
    )

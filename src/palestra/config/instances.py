"""Find the server instances in a resolved tree.

    <instance>: {<server type>: {<implementation>: {...}}}

A block that resembles an instance but is malformed is an error. Otherwise its server would silently
be missing from the fleet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from palestra.config.keys import DEFAULT_HOST, FLEET_KEYS, PLACEMENTS, RESERVED_KEYS
from palestra.config.paths import EXTRA_ROOTS, SearchPaths
from palestra.config.ports import port_problem
from palestra.config.problems import did_you_mean, nearest, raise_problems
from palestra.config.references import find_references
from palestra.config.resolved import InstanceConfig, ServerType
from palestra.config.tree import children

_TYPES = frozenset(server_type.value for server_type in ServerType)
_SURELY_MEANT = 0.8
"""Similarity from which a key counts as a misspelt server type, not as another word."""


@dataclass(frozen=True)
class InstanceBlock:
    """The parts of a well-formed instance block, not yet validated."""

    name: str
    type: ServerType
    implementation: str
    inner: Mapping[Any, Any] = field(repr=False)


def find_instances(
    tree: Mapping[Any, Any], search_paths: SearchPaths, *, need_folders: bool = True
) -> tuple[dict[str, InstanceConfig], tuple[str, ...]]:
    """Return all instances in order, and warnings.

    `need_folders`: whether an instance without a folder is a problem, unless it is remote. One
    error lists all problems of all instances. With `error_on_almost_servers: false`, malformed
    blocks are left out and reported as warnings.
    """
    blocks: list[InstanceBlock] = []
    misshapen: list[str] = []
    for name, value in tree.items():
        instance = _inspect(name, value)
        if isinstance(instance, str):
            misshapen.append(instance)
        elif instance is not None:
            blocks.append(instance)
    tolerant = tree.get("error_on_almost_servers") is False
    problems = [] if tolerant else list(misshapen)
    instances: dict[str, InstanceConfig] = {}
    for block in blocks:
        reader = _BlockReader(block, default_host(tree), search_paths, need_folder=need_folders)
        instances[block.name] = reader.read()
        problems.extend(reader.problems)
    raise_problems(problems)
    return instances, tuple(misshapen) if tolerant else ()


def default_host(tree: Mapping[Any, Any]) -> str:
    host = tree.get("default_host")
    return host if isinstance(host, str) and host else DEFAULT_HOST


def _inspect(name: Any, value: Any) -> InstanceBlock | str | None:
    """Return the instance block of a top-level entry, or the problem that makes it malformed.

    None when the entry is not meant as an instance.
    """
    if name in RESERVED_KEYS or not isinstance(value, Mapping):
        return _listed_type(name, value)
    types = [key for key in value if key in _TYPES]
    if len(types) > 1:
        return f"{name} has several server types ({', '.join(types)}); one instance has one"
    if not types:
        return _misspelt_type(name, value)
    others = [str(key) for key in value if key not in _TYPES]
    if others:
        return (
            f"{name} has {', '.join(others)} next to {types[0]}; put settings below "
            f"{name}.{types[0]}.<implementation>"
        )
    return _implementation(str(name), ServerType(types[0]), value[types[0]])


def _listed_type(name: Any, value: Any) -> str | None:
    if isinstance(value, list) and any(isinstance(i, Mapping) and _TYPES & i.keys() for i in value):
        return f"{name} is a list; a server's block is a mapping, without a dash before its type"
    return None


def _misspelt_type(name: Any, value: Mapping[Any, Any]) -> str | None:
    if len(value) != 1:
        return None
    key, inner = next(iter(value.items()))
    near = nearest(str(key), _TYPES, cutoff=_SURELY_MEANT)
    if near is None or not any(isinstance(item, Mapping) for _, item in children(inner)):
        return None
    return f"{name}: {key!r} is not a server type; did you mean {near!r}?"


def _implementation(name: str, server_type: ServerType, value: Any) -> InstanceBlock | str:
    where = f"{name}.{server_type}"
    if not isinstance(value, Mapping) or not value:
        return f"{where} must hold one implementation and its settings, as {where}.<folder name>"
    if len(value) > 1:
        return (
            f"{where} has several implementations ({', '.join(map(str, value))}); it can have one"
        )
    implementation, inner = next(iter(value.items()))
    if not isinstance(inner, Mapping):
        return (
            f"{where}.{implementation} is {type(inner).__name__}, not a mapping of settings; "
            f"without settings, write {implementation}: {{}}"
        )
    return InstanceBlock(name, server_type, str(implementation), inner)


class _BlockReader:
    """Reads one block and collects all its problems. An invalid value is replaced by its default."""

    def __init__(
        self, block: InstanceBlock, host: str, search_paths: SearchPaths, *, need_folder: bool
    ) -> None:
        self._block = block
        self._need_folder = need_folder
        self._default_host = host
        self._places = search_paths
        self._where = f"{block.name}.{block.type}.{block.implementation}"
        self.problems: list[str] = []

    def read(self) -> InstanceConfig:
        block = self._block
        settings = {key: item for key, item in block.inner.items() if key not in FLEET_KEYS}
        placement = self._placement()
        entrypoint = self._entrypoint()
        return InstanceConfig(
            name=block.name,
            type=block.type,
            implementation=block.implementation,
            settings=settings,
            host=self._text("host") or self._default_host,
            port=self._port(placement),
            entrypoint=entrypoint,
            num_workers=self._num_workers(),
            domain=self._text("domain"),
            description=self._text("description"),
            verified=self._verified(),
            value=self._text("value"),
            datasets=self._datasets(),
            placement=placement,
            refs=find_references(settings),
            folder=None if placement == "remote" else self._folder(entrypoint),
        )

    def _setting(self, key: str) -> Any:
        """Return a setting; None also for an empty string, which data commands fill in for unknown
        values.
        """
        value = self._block.inner.get(key)
        return None if value == "" else value

    def _wrong(self, key: str, expected: str) -> None:
        self.problems.append(f"{self._where}.{key} must be {expected}")

    def _text(self, key: str) -> str | None:
        value = self._setting(key)
        if value is None or isinstance(value, str):
            return value
        self._wrong(key, f"text, not {type(value).__name__}")
        return None

    def _port(self, placement: str | None) -> int | None:
        port = self._setting("port")
        if port is None:
            if placement == "remote":
                self._wrong("port", "given, because the instance is remote")
            return None
        problem = port_problem(port)
        if problem:
            self.problems.append(f"{self._where}.port {problem}")
            return None
        return int(port)

    def _num_workers(self) -> int:
        workers = self._setting("num_workers")
        if workers is None:
            return 1
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            self._wrong("num_workers", f"a whole number from 1, not {workers!r}")
            return 1
        return workers

    def _verified(self) -> bool:
        verified = self._setting("verified")
        if verified is not None and not isinstance(verified, bool):
            self._wrong("verified", f"true or false, not {verified!r}")
        return verified is True

    def _datasets(self) -> tuple[Mapping[str, Any], ...]:
        datasets = self._setting("datasets")
        if datasets is None:
            return ()
        if isinstance(datasets, list) and all(isinstance(item, Mapping) for item in datasets):
            return tuple(datasets)
        self._wrong("datasets", "a list of mappings")
        return ()

    def _placement(self) -> str | None:
        placement: str | None = self._setting("placement")
        if placement is None or placement in PLACEMENTS:
            return placement
        near = did_you_mean(str(placement), PLACEMENTS)
        self._wrong("placement", f"one of {', '.join(PLACEMENTS)}, not {placement!r}{near}")
        return None

    def _entrypoint(self) -> str:
        entrypoint = self._setting("entrypoint")
        if entrypoint is None:
            return "app.py"
        if not isinstance(entrypoint, str):
            self._wrong("entrypoint", f"a file name such as app.py, not {entrypoint!r}")
            return "app.py"
        if not _inside(entrypoint):
            self._wrong("entrypoint", f"a path inside the server's folder, not {entrypoint!r}")
            return "app.py"
        return entrypoint

    def _folder(self, entrypoint: str) -> Path | None:
        block = self._block
        relative = f"{block.type}/{block.implementation}"
        if not _inside(relative):
            self.problems.append(f"{self._where}: {block.implementation!r} is not a folder name")
            return None
        folders = self._places.candidates(relative)
        folder = next((f for f in folders if (f / entrypoint).is_file()), None)
        if folder is None and self._need_folder:
            self.problems.append(self._no_folder(folders, entrypoint))
        return folder

    def _no_folder(self, folders: tuple[Path, ...], entrypoint: str) -> str:
        bare = next((folder for folder in folders if folder.is_dir()), None)
        if bare is not None:
            files = [file.name for file in bare.glob("*.py")]
            near = did_you_mean(entrypoint, files)
            return f"{self._where}: the folder {bare} has no {entrypoint}{near}"
        import difflib

        names = sorted({name for folder in folders for name in _servers_beside(folder)})
        close = difflib.get_close_matches(self._block.implementation, names, n=3)
        suggestions = f"nearest: {', '.join(close)}" if close else f"existing: {', '.join(names)}"
        looked = " nor ".join(str(folder / entrypoint) for folder in folders)
        return (
            f"{self._where}: there is neither {looked}"
            + (f"; {suggestions}" if names else "")
            + f". If another package has it, copy its folder here, or name that package's folder in "
            f"{EXTRA_ROOTS}"
        )


def _inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts


def _servers_beside(folder: Path) -> Iterator[str]:
    if folder.parent.is_dir():
        yield from (path.name for path in folder.parent.iterdir() if any(path.glob("*.py")))

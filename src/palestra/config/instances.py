"""Find the server instances in a resolved tree.

    <instance>: {<server type>: {<implementation>: {...}}}

A block that resembles an instance but is malformed is an error. Otherwise its server would silently
be missing from the fleet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from palestra.config.keys import DEFAULT_HOST, FLEET_KEYS, PLACEMENTS, RESERVED_KEYS
from palestra.config.origins import Origins
from palestra.config.paths import EXTRA_ROOTS, SearchPaths
from palestra.config.ports import port_problem
from palestra.config.problems import did_you_mean, nearest, raise_problems, slip_of
from palestra.config.references import find_references
from palestra.config.resolved import InstanceConfig, ServerType
from palestra.config.tree import children, dotted
from palestra.errors import Problem

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
    tree: Mapping[Any, Any],
    search_paths: SearchPaths,
    *,
    need_folders: bool = True,
    origins: Origins = Origins(),  # noqa: B008  # frozen
) -> tuple[dict[str, InstanceConfig], tuple[str, ...]]:
    """Return all instances in order, and warnings.

    `origins`: where the tree comes from, for messages. `need_folders`: whether an instance without
    a folder is a problem, unless it is remote. One error lists all problems of all instances. With
    `error_on_almost_servers: false`, malformed blocks are left out and reported as warnings.
    """
    blocks: list[InstanceBlock] = []
    misshapen: list[Problem] = []
    for name, value in tree.items():
        instance = _inspect(name, value, origins)
        if isinstance(instance, Problem):
            misshapen.append(instance)
        elif instance is not None:
            blocks.append(instance)
    tolerant = tree.get("error_on_almost_servers") is False
    problems: list[Problem] = [] if tolerant else list(misshapen)
    instances: dict[str, InstanceConfig] = {}
    for block in blocks:
        reader = _BlockReader(
            block, default_host(tree), search_paths, origins, need_folder=need_folders
        )
        instances[block.name] = reader.read()
        problems.extend(reader.problems)
    raise_problems(problems)
    return instances, tuple(problem.message for problem in misshapen) if tolerant else ()


def default_host(tree: Mapping[Any, Any]) -> str:
    host = tree.get("default_host")
    return host if isinstance(host, str) and host else DEFAULT_HOST


def _inspect(name: Any, value: Any, origins: Origins) -> InstanceBlock | Problem | None:
    """Return the instance block of a top-level entry, or the problem that makes it malformed.

    None when the entry is not meant as an instance.
    """
    if name in RESERVED_KEYS or not isinstance(value, Mapping):
        return _listed_type(name, value, origins)
    types = [key for key in value if key in _TYPES]
    if len(types) > 1:
        problem = Problem(
            f"{name} has several server types ({', '.join(types)}); one instance has one"
        )
        return origins.located(problem, name, types[-1])
    if not types:
        return _misspelt_type(name, value, origins)
    others = [str(key) for key in value if key not in _TYPES]
    if others:
        return _beside_the_type(name, types[0], others, value[types[0]], origins)
    return _implementation(str(name), ServerType(types[0]), value[types[0]], origins)


def _listed_type(name: Any, value: Any, origins: Origins) -> Problem | None:
    if isinstance(value, list) and any(isinstance(i, Mapping) and _TYPES & i.keys() for i in value):
        problem = Problem(
            f"{name} is a list; a server's block is a mapping, without a dash before its type"
        )
        return origins.located(problem, name)
    return None


def _misspelt_type(name: Any, value: Mapping[Any, Any], origins: Origins) -> Problem | None:
    if len(value) != 1:
        return None
    key, inner = next(iter(value.items()))
    near = nearest(str(key), _TYPES, cutoff=_SURELY_MEANT)
    if near is None or not any(isinstance(item, Mapping) for _, item in children(inner)):
        return None
    problem = Problem(f"{name}: {key!r} is not a server type; did you mean {near!r}?")
    return origins.located(problem, name, key)


def _beside_the_type(
    name: Any, server_type: str, keys: Sequence[str], implementations: Any, origins: Origins
) -> Problem:
    """Return the problem of settings that are beside the server type of an instance."""
    only = [*implementations] if isinstance(implementations, Mapping) else []
    below = f"{name}.{server_type}.{only[0] if len(only) == 1 else '<implementation>'}"
    override = origins.override(name, keys[0])
    written = f"{below}.{keys[0]}"
    problem = Problem(
        f"{name} has {', '.join(keys)} next to {server_type}; put settings below {below}",
        hint=f"write {written if override is None else f'{override.action}{written}=…'}",
    )
    return origins.located(problem, name, keys[0])


def _implementation(
    name: str, server_type: ServerType, value: Any, origins: Origins
) -> InstanceBlock | Problem:
    where = f"{name}.{server_type}"
    if not isinstance(value, Mapping) or not value:
        problem = Problem(
            f"{where} must hold one implementation and its settings, as {where}.<folder name>"
        )
        return origins.located(problem, name, server_type)
    if len(value) > 1:
        return _several_implementations(name, server_type, [*value], origins)
    implementation, inner = next(iter(value.items()))
    if not isinstance(inner, Mapping):
        problem = Problem(
            f"{where}.{implementation} is {type(inner).__name__}, not a mapping of settings; "
            f"without settings, write {implementation}: {{}}"
        )
        return origins.located(problem, name, server_type, implementation)
    return InstanceBlock(name, server_type, str(implementation), inner)


def _several_implementations(
    name: str, server_type: ServerType, implementations: Sequence[Any], origins: Origins
) -> Problem:
    """Return the problem of an instance that has several implementations, by its files or by an
    override.
    """
    where = f"{name}.{server_type}"
    if len({origins.of(name, server_type, i) for i in implementations}) == 1:
        listed = ", ".join(map(str, implementations))
        only = Problem(f"{where} has several implementations ({listed}); it can have one")
        return origins.located(only, name, server_type, implementations[-1])
    origin_of = {i: origins.line_of(name, server_type, i) for i in implementations}
    listed = ", ".join(f"{i} of {origin}" if origin else str(i) for i, origin in origin_of.items())
    problem = f"{where} has several implementations: {listed}; it can have one"
    overridden = {i: o for i in implementations if (o := origins.override(name, server_type, i))}
    of_files = [i for i in implementations if i not in overridden]
    if len(of_files) != 1:
        choice = "leave one of the files out, or " if of_files else ""
        return Problem(problem, hint=f"{choice}delete one: ~{where}.{implementations[0]}")
    (of_file,), (another, override) = of_files, next(iter(overridden.items()))
    written = (
        f"write {override.action}{dotted((name, server_type, of_file, *override.steps[3:]))}=…"
    )
    if slip_of(str(another), [str(of_file)]):
        return Problem(f"{problem}; did you mean {of_file!r}?", hint=written)
    return Problem(
        problem, hint=f"{written}, or put ~{where}.{of_file} before it to replace {of_file}"
    )


class _BlockReader:
    """Reads one block and collects all its problems. An invalid value is replaced by its default."""

    def __init__(
        self,
        block: InstanceBlock,
        host: str,
        search_paths: SearchPaths,
        origins: Origins,
        *,
        need_folder: bool,
    ) -> None:
        self._block = block
        self._origins = origins
        self._need_folder = need_folder
        self._default_host = host
        self._places = search_paths
        self._where = f"{block.name}.{block.type}.{block.implementation}"
        self.problems: list[Problem] = []

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
            setting_files=self._origins.files_below(block.name, block.type, block.implementation),
            setting_references=self._origins.references_below(
                block.name, block.type, block.implementation
            ),
            file=self._origins.file(block.name, block.type, block.implementation),
        )

    def _setting(self, key: str) -> Any:
        """Return a setting; None also for an empty string, which data commands fill in for unknown
        values.
        """
        value = self._block.inner.get(key)
        return None if value == "" else value

    def _wrong(self, key: str, expected: str) -> None:
        self._add(key, f"must be {expected}")

    def _add(self, key: str, text: str) -> None:
        problem = Problem(f"{self._where}.{key} {text}", key=f"{self._where}.{key}")
        self.problems.append(self._located(problem, key))

    def _located(self, problem: Problem, *steps: str) -> Problem:
        """Return a problem of the block, or of one of its keys, with its origin."""
        block = self._block
        return self._origins.located(problem, block.name, block.type, block.implementation, *steps)

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
            self._add("port", problem)
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
            text = f"{self._where}: {block.implementation!r} is not a folder name"
            self.problems.append(self._located(Problem(text, key=self._where)))
            return None
        folders = self._places.candidates(relative)
        folder = next((f for f in folders if (f / entrypoint).is_file()), None)
        if folder is None and self._need_folder:
            text = self._no_folder(folders, entrypoint)
            self.problems.append(self._located(Problem(text, key=self._where)))
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

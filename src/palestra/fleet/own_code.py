"""The author's code that a server runs: its folder, and the modules of the author that it imports.

The modules are found in their text, without importing anything, so that a command knows the code of
servers that run in other processes. Not followed: imports by a name made at run time
(`importlib.import_module`), installed packages, and Palestra.
"""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final, Self, final

from palestra.config import PACKAGE_ROOT, InstanceConfig, ResolvedConfig

MOST_MODULES: Final = 400
"""So many modules outside a server's folder are followed: about one second's work."""
REPLACED: Final = "nemo_gym"
"""The package that Palestra's aliases replace. It may be installed nevertheless."""
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def import_roots(path: Path) -> tuple[str, str]:
    """Return the folders from which an author's file can import: its own, and its project's root."""
    path = path.resolve()
    root = path.parents[2] if len(path.parents) > 2 else path.parent
    return str(path.parent), str(root)


def search_path(files: Iterable[Path]) -> list[str]:
    """Return the folders in which an author's files find modules, in this order: what is installed,
    what is beside the files, the rest of `sys.path`. The files of another author may have added their
    folders to that.
    """
    roots = dict.fromkeys(root for file in files for root in import_roots(file))
    others = [entry for entry in sys.path if entry not in roots]
    installed = [entry for entry in others if entry and not _is_own(Path(entry))]
    return [*installed, *roots, *(entry for entry in others if entry not in installed)]


@final
@dataclass(frozen=True, slots=True)
class OwnCode:
    """The author's code of an instance at one moment.

    A file of the instance's folder is named by its path there, a module outside the folder by the
    name by which it is imported, so that the names are the same on every machine.
    """

    digests: Mapping[str, str]
    """The digest of each file, by its name; none when the code ships with Palestra."""
    paths: Mapping[str, Path]

    @classmethod
    def of(cls, instance: InstanceConfig) -> Self:
        """Read the code. All modules of the instance's folder count, because the entrypoint may
        import any of them.
        """
        files: dict[str, Path] = {}
        if "path" in instance.settings:
            path = Path(str(instance.settings["path"]))
            files[path.name] = path
        folder = instance.folder
        if folder is not None and not folder.is_relative_to(PACKAGE_ROOT):
            names = (file.relative_to(folder) for file in sorted(folder.rglob("*.py")))
            files |= {name.as_posix(): folder / name for name in names if _counts(name)}
        return cls._of_paths(files)

    @classmethod
    def of_file(cls, file: Path) -> Self:
        """Read `file`, and the author's modules that it imports."""
        return cls._of_paths({file.name: file})

    @classmethod
    def _of_paths(cls, files: Mapping[str, Path]) -> Self:
        paths = {name: file for name, file in files.items() if file.is_file()}
        paths |= _imported_by(paths)
        digests = {
            name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items()
        }
        return cls(digests, paths)

    def changed_since(self, earlier: Self) -> tuple[Path, ...]:
        """Return the files that are new, changed or gone since `earlier`."""
        paths = {**earlier.paths, **self.paths}
        return tuple(
            path
            for name, path in paths.items()
            if self.digests.get(name) != earlier.digests.get(name)
        )


def code_digests(config: ResolvedConfig) -> dict[str, Mapping[str, str]]:
    """Return the digests of the author's code of each instance that has such code, by its name."""
    codes = {name: OwnCode.of(instance).digests for name, instance in config.instances.items()}
    return {name: digests for name, digests in codes.items() if digests}


def _counts(path: Path) -> bool:
    """Whether a module of a server's folder may affect rewards: modules in `tests` or hidden
    folders such as `.venv` do not.
    """
    return not any(part == "tests" or part.startswith(".") for part in path.parts)


def _imported_by(files: Mapping[str, Path]) -> dict[str, Path]:
    """Return the author's modules that `files` import, directly or not, by their names."""
    visited = {file.resolve() for file in files.values()}
    path = search_path(files.values())
    modules: dict[str, Path] = {}
    pending = [("", file) for file in files.values()]
    while pending and len(modules) < MOST_MODULES:
        importer, file = pending.pop(0)
        for name, module in _modules_in(file, importer, path):
            if module not in visited and _is_own(module):
                visited.add(module)
                modules[name] = module
                pending.append((name, module))
    return modules


def _modules_in(file: Path, importer: str, path: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield the names and files of the modules that `file` imports; none when it cannot be parsed.

    `importer`: the name by which `file` was imported. `path`: the folders to search.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(alias.name.split("."), path)
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            for alias in node.names:
                if node.level:
                    folder = str(file.resolve().parents[node.level - 1])
                    prefix = f"{importer}{'.' * node.level}"
                    yield from _files_of([*parts, alias.name], [folder], prefix)
                else:
                    yield from _files_of([*parts, alias.name], path)


def _files_of(parts: list[str], path: list[str], prefix: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the names and files of a dotted name: of its packages, and of its module. Its last part
    may be no module, but a name in one.

    `path`: the folders to search. `prefix`: of a relative import, what stands before its names.
    """
    if not prefix and (parts[0] in sys.stdlib_module_names or parts[0] == REPLACED):
        return
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        # By its last name: the whole one of a folder without __init__.py is looked up among what is
        # imported, and nothing of it is.
        spec = PathFinder.find_spec(parts[count - 1], path) if path else None
        if spec is None:
            return
        if spec.has_location and spec.origin is not None and spec.origin.endswith(".py"):
            yield prefix + name, Path(spec.origin).resolve()
        path = list(spec.submodule_search_locations or ())


def _is_own(file: Path) -> bool:
    if file.is_relative_to(PACKAGE_ROOT) or not _INSTALLED.isdisjoint(file.parts):
        return False
    return not file.is_relative_to(sysconfig.get_path("stdlib"))

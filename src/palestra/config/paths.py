"""Look up files: first in the extra roots, then in the working directory, then in the installed
package.

The environment variable `NEMO_GYM_EXTRA_ROOTS` names the extra roots. Folders of existing
environments that have a new name in Palestra are also found under their old name.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, Self

from palestra.config.problems import nearest
from palestra.errors import ConfigError, KnownCause
from palestra.system import shown

SERVER_TREES: Final = ("resources_servers", "responses_api_agents", "responses_api_models")
"""The folders of a project that contain the servers' folders."""

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
"""The directory of the installed `palestra` package."""


EXTRA_ROOTS: Final = "NEMO_GYM_EXTRA_ROOTS"
"""The environment variable with folders to search first, separated like those of `PATH`."""


def extra_roots() -> tuple[Path, ...]:
    """Return the folders of `NEMO_GYM_EXTRA_ROOTS`, as absolute paths, each once."""
    names = os.environ.get(EXTRA_ROOTS, "").split(os.pathsep)
    return tuple(dict.fromkeys(Path(name).expanduser().absolute() for name in names if name))


def search_roots(cwd: Path | None = None) -> tuple[Path, ...]:
    """Return the folders in which relative paths are searched, in order: the extra roots, the
    working directory, the installed package.
    """
    return SearchPaths.of(cwd).roots


def project_root(path: Path) -> Path | None:
    """Return the nearest folder, from `path` upwards, that holds server trees; None without one."""
    for folder in (path, *path.parents):
        if folder.name in SERVER_TREES:
            return folder.parent
        if any((folder / tree).is_dir() for tree in SERVER_TREES):
            return folder
    return None


RENAMED: Final[Mapping[str, str]] = {
    "resources_servers/multineedle": "resources_servers/example_multi_step",
}
"""The new name of each renamed server folder, by its old name."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A path that begins with the old name of a folder."""

    old: str
    """The folder's old name: `resources_servers/multineedle`."""
    new: str
    path: str
    """The whole path with the folder's new name."""

    def __str__(self) -> str:
        return f"{self.old} is now called {self.new}; the new file is used"


def renamed(path: str | Path) -> Renamed | None:
    """Return `path` under its folder's new name; None when the folder has no new name.

    A file named like its folder is renamed too, such as `configs/multineedle.yaml`.
    """
    parts = PurePath(path).parts
    old = "/".join(parts[:2])
    new = RENAMED.get(old)
    if new is None:
        return None
    old_name, new_name = parts[1], PurePath(new).name
    below = [
        part.replace(old_name, new_name, 1) if PurePath(part).stem == old_name else part
        for part in parts[2:]
    ]
    return Renamed(old, new, "/".join((new, *below)))


def resolve_path(path: str | Path, cwd: Path, package_root: Path) -> Path:
    """Return the first existing path of: `path` in an extra root, `cwd/path`, `package_root/path`;
    when none exists, `cwd/path`.

    An absolute path is returned unchanged.
    """
    return SearchPaths.of(cwd, package_root).resolve(path)


@dataclass(frozen=True)
class SearchPaths:
    """The folders in which relative paths are looked up."""

    cwd: Path
    package_root: Path
    extra: tuple[Path, ...] = ()
    """Folders that are searched before the others."""

    @classmethod
    def of(cls, cwd: Path | None = None, package_root: Path | None = None) -> Self:
        """Return the folders for a command that runs in `cwd`, with its extra roots."""
        return cls(cwd or Path.cwd(), package_root or PACKAGE_ROOT, extra_roots())

    @property
    def roots(self) -> tuple[Path, ...]:
        """All folders, in search order, each once."""
        return tuple(dict.fromkeys((*self.extra, self.cwd, self.package_root)))

    def candidates(self, path: str | Path) -> tuple[Path, ...]:
        """Return every path that `path` can mean, in order of preference."""
        newer = renamed(path)
        names = (path,) if newer is None else (path, newer.path)
        paths = (root / name for name in names for root in self.roots)
        return tuple(dict.fromkeys(paths))

    def resolve(self, path: str | Path) -> Path:
        existing = (path for path in self.candidates(path) if path.exists())
        return next(existing, self.cwd / path)

    def renamed(self, path: str | Path) -> Renamed | None:
        """Return the new name under which `path` is found; None when `path` exists as written.

        Also None when no folder of the path was renamed.
        """
        newer = renamed(path)
        if newer is None or any((root / path).exists() for root in self.roots):
            return None
        return newer if self.resolve(newer.path).exists() else None

    def find_file(self, path: str, *, wanted_by: str) -> Path:
        """Return an existing file.

        Raises ConfigError: the file does not exist. The error lists all searched places and the
        nearest name.
        """
        candidates = self.candidates(path)
        existing = next((candidate for candidate in candidates if candidate.is_file()), None)
        if existing is not None:
            return existing
        near = next((n for candidate in candidates if (n := nearest_file(candidate))), None)
        looked = "\n".join(f"  {candidate}" for candidate in candidates)
        raise ConfigError(
            f"config file {path!r} ({wanted_by}) does not exist; looked for\n{looked}",
            hint=self._hint(path, near),
            cause=KnownCause.CONFIG_FILE_MISSING,
        )

    def _hint(self, path: str, near: Path | None) -> str:
        parts = path.split()
        if len(parts) > 1 and all(any(c.is_file() for c in self.candidates(p)) for p in parts):
            return f"a comma goes between two files: [{','.join(parts)}]"
        return f"did you mean {self._display_path(near)}?" if near else ""

    def _display_path(self, path: Path) -> str:
        root = next((r for r in self.roots if path.is_relative_to(r)), None)
        return str(path.relative_to(root) if root else path)


def nearest_file(path: Path) -> Path | None:
    """Return the existing file whose path is most similar to `path`, compared folder by folder."""
    near = nearest_path(path)
    return near if near is not None and near.is_file() else None


def did_you_mean_path(path: Path) -> str:
    """Return `"; did you mean x?"` for a path that does not exist; empty when none is similar."""
    near = nearest_path(path)
    return "" if near is None else f"; did you mean {shown(near)}?"


def nearest_path(path: Path) -> Path | None:
    """Return the existing file or folder whose path is most similar, compared folder by folder."""
    existing = Path(path.anchor)
    for part in path.parts[1:] if path.anchor else path.parts:
        if (existing / part).exists():
            existing /= part
            continue
        near = nearest_name(part, _names_in(existing))
        if near is None:
            return None
        existing /= near
    return existing


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar name; None when it is similar only by its suffix."""
    near = nearest(name, names)
    if near is None or Path(near).stem == Path(name).stem:
        return near
    return near if nearest(Path(name).stem, [Path(near).stem]) else None


def _names_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []

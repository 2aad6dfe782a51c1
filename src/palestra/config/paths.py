"""Where files are looked for: the working directory, then the installed package.

Folders of the field that have another name here are found under their old name too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from palestra.config.problems import nearest
from palestra.errors import ConfigError, KnownCause

SERVER_TREES: Final = ("resources_servers", "responses_api_agents", "responses_api_models")
"""The folders of a project that hold servers' folders."""

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
"""The directory of the installed `palestra` package."""


def project_root(path: Path) -> Path | None:
    """The folder that holds the server trees which `path` is in or above, None when none does."""
    for folder in (path, *path.parents):
        if folder.name in SERVER_TREES:
            return folder.parent
        if any((folder / tree).is_dir() for tree in SERVER_TREES):
            return folder
    return None


RENAMED: Final[Mapping[str, str]] = {
    "resources_servers/multineedle": "resources_servers/example_multi_step",
}
"""What a server's folder is called here, by its old name."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A path that begins with the old name of a folder."""

    old: str
    """The folder's old name: `resources_servers/multineedle`."""
    new: str
    path: str
    """The whole path under the new name."""

    def __str__(self) -> str:
        return f"{self.old} is now called {self.new}, and is read as that"


def renamed(path: str | Path) -> Renamed | None:
    """The path under the folder's new name; None when its folder has no new name.

    Files called like their folder are called like the new one: `configs/multineedle.yaml`.
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
    """The first existing of `cwd/path` and `package_root/path`; `cwd/path` if neither is.

    An absolute path is returned as it is.
    """
    return SearchPaths(cwd, package_root).resolve(path)


@dataclass(frozen=True)
class SearchPaths:
    """The two directories that relative paths start from, in order."""

    cwd: Path
    package_root: Path

    def candidates(self, path: str | Path) -> tuple[Path, ...]:
        """Every path that `path` can mean; the first that exists counts."""
        newer = renamed(path)
        names = (path,) if newer is None else (path, newer.path)
        paths = (root / name for name in names for root in (self.cwd, self.package_root))
        return tuple(dict.fromkeys(paths))

    def resolve(self, path: str | Path) -> Path:
        candidates = self.candidates(path)
        return next((path for path in candidates if path.exists()), candidates[0])

    def renamed(self, path: str | Path) -> Renamed | None:
        """The new name that `path` is read by; None when it is found as it is written."""
        newer = renamed(path)
        if newer is None or any((root / path).exists() for root in (self.cwd, self.package_root)):
            return None
        return newer if self.resolve(newer.path).exists() else None

    def find_file(self, path: str, *, wanted_by: str) -> Path:
        """An existing file; else an error with every place looked in and the nearest name."""
        candidates = self.candidates(path)
        existing = next((candidate for candidate in candidates if candidate.is_file()), None)
        if existing is not None:
            return existing
        near = next((n for candidate in candidates if (n := nearest_file(candidate))), None)
        looked = "\n".join(f"  {candidate}" for candidate in candidates)
        raise ConfigError(
            f"config file {path!r} ({wanted_by}) does not exist; looked for\n{looked}",
            hint=f"did you mean {self._shown(near)}?" if near else "",
            cause=KnownCause.CONFIG_FILE_MISSING,
        )

    def _shown(self, path: Path) -> str:
        root = next((r for r in (self.cwd, self.package_root) if path.is_relative_to(r)), None)
        return str(path.relative_to(root) if root else path)


def nearest_file(path: Path) -> Path | None:
    """The existing file whose path is spelt most like `path`, folder by folder."""
    existing = Path(path.anchor)
    for part in path.parts[1:] if path.anchor else path.parts:
        if (existing / part).exists():
            existing /= part
            continue
        near = nearest(part, _names_in(existing))
        if near is None:
            return None
        existing /= near
    return existing if existing.is_file() else None


def _names_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []

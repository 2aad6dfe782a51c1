"""Where files are looked for: the working directory, then the installed package."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.config.spelling import nearest
from palestra.errors import ConfigError

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


def resolve_path(path: str | Path, cwd: Path, package_root: Path) -> Path:
    """The first existing of `cwd/path` and `package_root/path`; `cwd/path` if neither is.

    An absolute path is returned as it is.
    """
    return Places(cwd, package_root).resolve(path)


@dataclass(frozen=True)
class Places:
    """The two directories that relative paths start from, in order."""

    cwd: Path
    package_root: Path

    def candidates(self, path: str | Path) -> tuple[Path, ...]:
        """Every path that `path` can mean; the first that exists counts."""
        both = (self.cwd / path, self.package_root / path)
        return both[:1] if both[0] == both[1] else both

    def resolve(self, path: str | Path) -> Path:
        candidates = self.candidates(path)
        return next((place for place in candidates if place.exists()), candidates[0])

    def find_file(self, path: str, *, wanted_by: str) -> Path:
        """An existing file; else an error with every place looked in and the nearest name."""
        candidates = self.candidates(path)
        found = next((place for place in candidates if place.is_file()), None)
        if found is not None:
            return found
        near = next((n for place in candidates if (n := nearest_file(place))), None)
        looked = "\n".join(f"  {place}" for place in candidates)
        raise ConfigError(
            f"config file {path!r} ({wanted_by}) does not exist; looked for\n{looked}",
            hint=f"did you mean {self._shown(near)}?" if near else "",
        )

    def _shown(self, path: Path) -> str:
        root = next((r for r in (self.cwd, self.package_root) if path.is_relative_to(r)), None)
        return str(path.relative_to(root) if root else path)


def nearest_file(path: Path) -> Path | None:
    """The existing file whose path is spelt most like `path`, folder by folder."""
    found = Path(path.anchor)
    for part in path.parts[1:] if path.anchor else path.parts:
        if (found / part).exists():
            found /= part
            continue
        near = nearest(part, _names_in(found))
        if near is None:
            return None
        found /= near
    return found if found.is_file() else None


def _names_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []

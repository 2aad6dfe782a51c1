"""Where the project is whose servers this process runs."""

import sys
from pathlib import Path

from palestra.config import PACKAGE_ROOT, SERVER_TREES, project_root


def root() -> Path:
    """The folder that holds `resources_servers` and its siblings.

    Around the working directory, else among the places that modules are imported from; the
    working directory where there is none.
    """
    around = project_root(Path.cwd())
    if around is not None:
        return around
    for entry in sys.path:
        folder = Path(entry or ".")
        if any((folder / tree).is_dir() for tree in SERVER_TREES) and folder != PACKAGE_ROOT:
            return folder.resolve()
    return Path.cwd()


def resolve(path: str | Path) -> Path:
    """The first that exists of `path` from the working directory, the project, and our package."""
    candidates = [Path(path), root() / path, PACKAGE_ROOT / path]
    return next((candidate for candidate in candidates if candidate.exists()), candidates[0])

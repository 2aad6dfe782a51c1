"""Locate the project whose servers this process runs."""

import sys
from pathlib import Path

from palestra.config import PACKAGE_ROOT, SERVER_TREES, project_root


def root() -> Path:
    """Return the folder that holds `resources_servers` and the other server trees.

    Searched: the working directory and its parents, then `sys.path`. If none has them: the working
    directory.
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
    """Return the first existing path of: `path` itself, `path` in the project, `path` in our
    package.

    When none exists: `path` itself.
    """
    candidates = [Path(path), root() / path, PACKAGE_ROOT / path]
    return next((candidate for candidate in candidates if candidate.exists()), candidates[0])

"""Locate the project whose servers this process runs."""

import sys
from pathlib import Path

from palestra.config import PACKAGE_ROOT, SERVER_TREES, extra_roots, project_root


def root() -> Path:
    """Return the folder that holds `resources_servers` and the other server trees.

    Searched: the working directory and its parents, then `sys.path`. If none has them: the working
    directory.
    """
    project = project_root(Path.cwd())
    if project is not None:
        return project
    for entry in sys.path:
        folder = Path(entry or ".")
        if any((folder / tree).is_dir() for tree in SERVER_TREES) and folder != PACKAGE_ROOT:
            return folder.resolve()
    return Path.cwd()


def around() -> Path:
    """Return the project that the working directory is in; the working directory when it is in
    none.
    """
    return project_root(Path.cwd()) or Path.cwd()


def component_search_roots() -> list[Path]:
    """Return the folders in which configs, prompts, data and skills are searched, in order, each
    once: the extra roots of `NEMO_GYM_EXTRA_ROOTS`, the working directory, the project.
    """
    return list(dict.fromkeys((*extra_roots(), Path.cwd(), root())))


def resolve(path: str | Path) -> Path:
    """Return the first existing path of: `path` in each of `component_search_roots`, `path` in our
    package.

    When none exists: `path` in the working directory. An absolute path is returned unchanged.
    """
    roots = (*component_search_roots(), PACKAGE_ROOT)
    existing = (folder / path for folder in roots if (folder / path).exists())
    return next(existing, Path.cwd() / path)

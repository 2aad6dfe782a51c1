"""Find the files of the environment that a test names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from palestra.config import PACKAGE_ROOT, project_root, renamed
from palestra.errors import ConfigError

OF_ONE_TEST: Final = "PYTEST_CURRENT_TEST"
"""The environment variable that pytest sets to a new value for each test."""
_RESOURCES = "resources_servers"


def config_of(environment: str | Path) -> Path | None:
    """Return the config of an environment, given by name, folder or config; None when it has no
    config.
    """
    path = Path(environment)
    if path.suffix in {".yaml", ".yml"}:
        return next((file for file in _candidate_paths(path) if file.exists()), path)
    configs = (f / "configs" / f"{f.absolute().name}.yaml" for f in _candidate_paths(path))
    return next((config for config in configs if config.exists()), None)


def entrypoint_of(environment: str | Path) -> Path:
    """Return the Python file of an environment, given by name, folder or file.

    Raises ConfigError, with the searched places: the environment does not exist.
    """
    path = Path(environment)
    if path.suffix == ".py":
        return next((file for file in _candidate_paths(path) if file.exists()), path)
    files = [folder / "app.py" for folder in _candidate_paths(path)]
    entrypoint = next((file for file in files if file.exists()), None)
    if entrypoint is None:
        looked = "\n".join(f"  {file}" for file in files)
        raise ConfigError(
            f"there is no environment {environment}; looked for\n{looked}",
            hint="name a folder with app.py in it, from the project's root or from here",
        )
    return entrypoint


def data_file_of(environment: str | Path, name: str) -> Path:
    """Return a file of an environment's `data` folder; when it does not exist, the first searched
    path.
    """
    path = Path(environment)
    files = [folder / "data" / name for folder in _candidate_paths(path)]
    return next((file for file in files if file.exists()), files[0])


def _candidate_paths(named_path: Path) -> Iterator[Path]:
    """Yield all paths that a name can mean, the nearest first.

    Tests run in the environment's folder, but name environments relative to the project.
    """
    folder = Path.cwd()
    roots = dict.fromkeys((folder, project_root(folder) or folder, PACKAGE_ROOT))
    paths = (named_path, Path(_RESOURCES) / named_path)
    newer = [Path(new_name.path) for path in paths if (new_name := renamed(path))]
    for path in (*paths, *newer):
        for root in roots:
            yield root / path

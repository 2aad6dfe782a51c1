"""Where an environment is that a test names, and what differs from one test to the next."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from palestra.config import PACKAGE_ROOT, project_root, renamed
from palestra.errors import ConfigError

OF_ONE_TEST: Final = "PYTEST_CURRENT_TEST"
"""The environment variable that pytest sets anew for each test."""
_RESOURCES = "resources_servers"


def config_of(environment: str | Path) -> Path | None:
    """The config of an environment, by its name, its folder or itself; None when it has none."""
    path = Path(environment)
    if path.suffix in {".yaml", ".yml"}:
        return next((file for file in _places(path) if file.exists()), path)
    configs = (f / "configs" / f"{f.absolute().name}.yaml" for f in _places(path))
    return next((config for config in configs if config.exists()), None)


def entrypoint_of(environment: str | Path) -> Path:
    """The Python file of an environment, by its name, its folder or itself.

    Raises ConfigError naming the places that were looked in.
    """
    path = Path(environment)
    if path.suffix == ".py":
        return next((file for file in _places(path) if file.exists()), path)
    files = [folder / "app.py" for folder in _places(path)]
    entrypoint = next((file for file in files if file.exists()), None)
    if entrypoint is None:
        looked = "\n".join(f"  {file}" for file in files)
        raise ConfigError(
            f"there is no environment {environment}; looked for\n{looked}",
            hint="name a folder with app.py in it, from the project's root or from here",
        )
    return entrypoint


def data_file_of(environment: str | Path, name: str) -> Path:
    """A file of an environment's `data` folder; where there is none, as if the name was a folder."""
    path = Path(environment)
    files = [folder / "data" / name for folder in _places(path)]
    return next((file for file in files if file.exists()), files[0])


def _places(named_path: Path) -> Iterator[Path]:
    """Everywhere that a name may mean, nearest first.

    Tests run in the environment's folder, and name environments as they are named in the project.
    """
    folder = Path.cwd()
    roots = dict.fromkeys((folder, project_root(folder) or folder, PACKAGE_ROOT))
    paths = (named_path, Path(_RESOURCES) / named_path)
    newer = [Path(new_name.path) for path in paths if (new_name := renamed(path))]
    for path in (*paths, *newer):
        for root in roots:
            yield root / path

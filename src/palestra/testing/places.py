"""Where an environment is that a test names."""

from pathlib import Path

from palestra.config import PACKAGE_ROOT, resolve_path


def config_of(environment: str | Path) -> Path | None:
    """The config of an environment, by its name, its folder or itself; None when it has none."""
    given = Path(environment)
    if given.suffix in {".yaml", ".yml"}:
        return given
    name = given.absolute().name
    for place in (given, Path("resources_servers") / given):
        folder = resolve_path(str(place), Path.cwd(), PACKAGE_ROOT)
        if (config := folder / "configs" / f"{name}.yaml").exists():
            return config
    return None

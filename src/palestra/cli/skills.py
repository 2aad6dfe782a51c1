"""`skills install`: the shipped skills copied into a project."""

from pathlib import Path

from palestra.cli.console import say, shown
from palestra.config import PACKAGE_ROOT
from palestra.errors import ConfigError


def shipped_skills() -> Path:
    """The folder of the skills: in the wheel within the package, in a checkout beside `src`."""
    places = (PACKAGE_ROOT / "skills", PACKAGE_ROOT.parents[1] / "skills")
    return next(place for place in places if place.is_dir())


def install_skills(folder: Path, *, overwrite: bool) -> int:
    """Copy every skill. Raises ConfigError when a file there is another one, and copies nothing."""
    source = shipped_skills()
    texts = {
        folder / path.relative_to(source): path.read_bytes()
        for path in sorted(source.rglob("*.md"))
    }
    changed = [path for path, text in texts.items() if path.exists() and path.read_bytes() != text]
    if changed and not overwrite:
        raise ConfigError(
            f"{len(changed)} files of the skills are there, and are not the same: "
            + ", ".join(map(shown, changed)),
            hint="--overwrite replaces them; or name another folder",
        )
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    for skill in sorted({path.relative_to(folder).parts[0] for path in texts}):
        say(f"  {shown(folder / skill)}")
    return 0

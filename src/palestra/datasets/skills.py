"""Skills: folders of instructions for a coding agent, one folder with a `SKILL.md` for each skill.

    DIR/<skill>/SKILL.md      front matter in YAML: name, description, version; then the text

A run with skills records a `SkillsRef` in each row, so that its results say which skills the agent
had. The agent copies the folder to where it looks for skills.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict

SKILL_FILE: Final = "SKILL.md"
_FENCE: Final = "---"
HASH_DIGITS: Final = 12


class SkillMetadata(BaseModel):
    """What the front matter of a `SKILL.md` says about its skill."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    name: str
    description: str | None = None
    version: str | None = None


class SkillsRef(BaseModel):
    """The skills of a run: their folder as the user named it, the digest of its files, and the
    skills in it.
    """

    path: str
    hash: str
    skills: list[SkillMetadata] = []


def parse_skill_md(path: str | Path) -> SkillMetadata:
    """Return the metadata of the `SKILL.md` at `path`.

    Raises ValueError: the file cannot be read, or its front matter is missing, is not YAML or has
    no `name`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    first, *lines = text.lstrip("\ufeff").splitlines() or [""]
    stripped = [line.rstrip() for line in lines]
    if first.rstrip() != _FENCE or _FENCE not in stripped:
        raise ValueError(f"{path} has no front matter: its first lines are ---, name: …, ---")
    try:
        fields: Any = yaml.safe_load("\n".join(lines[: stripped.index(_FENCE)]))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: the front matter is not YAML: {error}") from error
    if not isinstance(fields, dict) or not str(fields.get("name") or "").strip():
        raise ValueError(f"{path}: the front matter has no `name`")
    return SkillMetadata.model_validate(fields)


def hash_skill_dir(folder: str | Path) -> str:
    """Return 12 hexadecimal digits that change when a file below `folder` changes or is renamed."""
    root = Path(folder)
    files = {file.relative_to(root).as_posix(): file for file in root.rglob("*") if file.is_file()}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name].read_bytes() + b"\0")
    return digest.hexdigest()[:HASH_DIGITS]


def skills_in(folder: Path, *, path: str) -> SkillsRef:
    """Return the skills in `folder`. `path`: the folder as the user named it.

    Raises ValueError: `folder` is not a folder or has no skills, a `SKILL.md` is wrong, or two
    skills have the same name.
    """
    require_folder(folder, path)
    files = sorted(folder.glob(f"*/{SKILL_FILE}"))
    if not files:
        raise ValueError(f"skills.path {path!r} has no skill: a skill is <skill>/{SKILL_FILE}")
    skills = [parse_skill_md(file) for file in files]
    names = [skill.name for skill in skills]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"skills.path {path!r} has two skills with the name {twice!r}")
    return SkillsRef(path=path, hash=hash_skill_dir(folder), skills=skills)


def copy_skills(folder: Path, destination: Path, *, path: str) -> None:
    """Copy the skills in `folder` to `destination`, which must not exist.

    Raises ValueError: `folder` is not a folder. FileExistsError: `destination` exists.
    """
    require_folder(folder, path)
    shutil.copytree(folder, destination)


def require_folder(folder: Path, path: str) -> None:
    """Raise ValueError when `folder`, which the user named `path`, is not a folder."""
    if not folder.is_dir():
        raise ValueError(f"skills.path {path!r} is not a folder: {folder.absolute()}")

"""`nemo_gym.skills`: the skills of a coding agent, their metadata, and their copy for one rollout."""

from pathlib import Path

from pydantic import BaseModel

from palestra.compat.project import resolve
from palestra.datasets import (
    SkillMetadata,
    SkillsRef,
    copy_skills,
    hash_skill_dir,
    parse_skill_md,
    skills_in,
)


class SkillsConfig(BaseModel):
    """The setting `skills` of a run. `path`: the folder of the skills."""

    path: str


def load_skill_directory(path: str | Path) -> SkillsRef:
    """Return the skills in the folder `path`, with the digest of its files.

    A relative path is searched like those of `stage_skills`. Raises ValueError: there is no such
    folder, it has no skills, or a `SKILL.md` is wrong.
    """
    return skills_in(resolve(path), path=str(path))


def stage_skills(path: str | Path, dest_skills_dir: Path) -> None:
    """Copy the folder of skills `path` to `dest_skills_dir`, which must not exist.

    A relative path is searched in the extra roots, in the working directory and in the project.
    Raises ValueError: there is no such folder.
    """
    copy_skills(resolve(path), Path(dest_skills_dir), path=str(path))


__all__ = [
    "SkillMetadata",
    "SkillsConfig",
    "SkillsRef",
    "hash_skill_dir",
    "load_skill_directory",
    "parse_skill_md",
    "stage_skills",
]

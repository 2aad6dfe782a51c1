"""`nemo_gym.skills`: skills of coding agents, read and copied."""

import hashlib
import importlib
from pathlib import Path
from typing import Any

import pytest

from palestra.compat import aliases


@pytest.fixture
def skills() -> Any:
    aliases.install()
    return importlib.import_module("nemo_gym.skills")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two skills, one with a file beside its `SKILL.md`."""
    root = tmp_path / "my_skills"
    for name, text in {
        "b/SKILL.md": "---\nname: second\n---\n",
        "a/SKILL.md": '---\nname: first\ndescription: "Do: it"\nversion: 1.0\n---\n# Text\n',
        "a/scripts/run.sh": "echo\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_parse_skill_md_reads_the_front_matter(skills: Any, folder: Path) -> None:
    metadata = skills.parse_skill_md(folder / "a" / "SKILL.md")

    assert metadata == skills.SkillMetadata(name="first", description="Do: it", version="1.0")


@pytest.mark.parametrize(
    "text", ["", "# no front matter\n", "---\nname: x\n", "---\nversion: 1\n---\n", "---\n{\n---\n"]
)
def test_parse_skill_md_refuses_a_file_without_a_name(
    skills: Any, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "SKILL.md"
    path.write_text(text)

    with pytest.raises(ValueError, match=str(path)):
        skills.parse_skill_md(path)


def test_hash_skill_dir_is_of_sorted_names_and_contents(skills: Any, folder: Path) -> None:
    digest = hashlib.sha256()
    for name in ("a/SKILL.md", "a/scripts/run.sh", "b/SKILL.md"):
        digest.update(name.encode() + b"\0" + (folder / name).read_bytes() + b"\0")

    assert skills.hash_skill_dir(folder) == digest.hexdigest()[:12]


def test_load_skill_directory_has_path_hash_and_skills(skills: Any, folder: Path) -> None:
    ref = skills.load_skill_directory(str(folder))

    assert isinstance(ref, skills.SkillsRef)
    assert ref.path == str(folder)
    assert ref.hash == skills.hash_skill_dir(folder)
    assert [skill.name for skill in ref.skills] == ["first", "second"]


def test_two_skills_of_one_name_are_refused(skills: Any, folder: Path) -> None:
    (folder / "b" / "SKILL.md").write_text("---\nname: first\n---\n")

    with pytest.raises(ValueError, match="'first'"):
        skills.load_skill_directory(folder)


def test_skills_config_has_the_path(skills: Any) -> None:
    assert skills.SkillsConfig(path="skills").path == "skills"


def test_stage_skills_copies_the_directory(skills: Any, folder: Path, tmp_path: Path) -> None:
    skills.stage_skills(str(folder), tmp_path / "home" / ".claude" / "skills")

    copied = tmp_path / "home" / ".claude" / "skills"
    assert (copied / "a" / "scripts" / "run.sh").read_text() == "echo\n"
    assert skills.hash_skill_dir(copied) == skills.hash_skill_dir(folder)


def test_stage_skills_needs_a_directory(skills: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no_such_skills"):
        skills.stage_skills("no_such_skills", tmp_path / "copy")


def test_stage_skills_writes_into_nothing_that_exists(
    skills: Any, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(FileExistsError):
        skills.stage_skills(str(folder), tmp_path)


def test_stage_skills_searches_the_extra_roots_first(
    skills: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work" / "my_skills").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", str(folder.parent))

    skills.stage_skills("my_skills", tmp_path / "copy")

    assert (tmp_path / "copy" / "a" / "SKILL.md").exists()

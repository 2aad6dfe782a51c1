"""A run with `+skills.path=DIR` records the skills in every row and result."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import (
    always,
    collect,
    paths,
    read_rows,
    settings,
    task,
    write_rows,
)

from palestra.config import load_config
from palestra.errors import ConfigError
from palestra.rollouts import skills_ref
from palestra.settings import CollectArgs, args_from


def skill(folder: Path, name: str, **fields: Any) -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    lines = "".join(f"{key}: {value}\n" for key, value in {"name": name, **fields}.items())
    file.write_text(f"---\n{lines}---\nDo it well.\n")
    return file


def test_every_row_and_result_has_the_skills(tmp_path: Path) -> None:
    file = skill(tmp_path / "skills", "review", description="Read code", version=1.2)
    write_rows(tmp_path / "tasks.jsonl", [task(1), task(2)])

    collect(tmp_path, always(1.0), skills=str(tmp_path / "skills"))

    digest = hashlib.sha256(b"review/SKILL.md\0" + file.read_bytes() + b"\0").hexdigest()[:12]
    expected = {
        "path": str(tmp_path / "skills"),
        "hash": digest,
        "skills": [{"name": "review", "description": "Read code", "version": "1.2"}],
    }
    rows = read_rows(paths(tmp_path).materialized_inputs) + read_rows(paths(tmp_path).output)
    assert [row["skills_ref"] for row in rows] == [expected] * 4


def test_a_run_without_skills_has_no_such_field(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(1)])

    collect(tmp_path, always(1.0))

    assert "skills_ref" not in read_rows(paths(tmp_path).output)[0]


def test_a_failure_has_the_skills_too(tmp_path: Path) -> None:
    skill(tmp_path / "skills", "review")
    write_rows(tmp_path / "tasks.jsonl", [task(1)])

    collect(tmp_path, always(float("nan")), skills=str(tmp_path / "skills"), max_attempts=1)

    [row] = read_rows(paths(tmp_path).failures)
    assert row["skills_ref"]["skills"][0]["name"] == "review"


@pytest.mark.parametrize("given", ["missing", "empty", "nameless"])
def test_a_folder_without_skills_is_refused_before_the_run(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").mkdir()
    skill(tmp_path / "nameless", "review").write_text("---\nversion: 1\n---\n")

    with pytest.raises(ConfigError) as caught:
        skills_ref(settings(tmp_path, skills=str(tmp_path / given)))

    assert given in caught.value.message


def test_the_setting_is_given_as_skills_path(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").touch()
    overrides = [
        "+skills.path=my_skills",
        f"+input_jsonl_fpath={tmp_path / 'tasks.jsonl'}",
        "+output_jsonl_fpath=run.jsonl",
    ]
    config = load_config(overrides=overrides, use_env_yaml=False)

    assert args_from(CollectArgs, config.tree).settings(config).skills == "my_skills"

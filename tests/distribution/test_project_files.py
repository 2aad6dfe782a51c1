"""The files beside the code: citation, release steps, and the questions to who reports a problem."""

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import palestra
from palestra.errors import Layer

REPOSITORY: Final = Path(__file__).resolve().parents[2]
TEMPLATES: Final = REPOSITORY / ".github" / "ISSUE_TEMPLATE"

pytestmark = pytest.mark.source


def fields(template: str) -> dict[str, dict[str, Any]]:
    """The questions of an issue template, by id."""
    form = yaml.safe_load((TEMPLATES / template).read_text())
    return {part["id"]: part for part in form["body"] if "id" in part}


def required(template: str) -> set[str]:
    """The questions that must be answered."""
    return {
        name
        for name, part in fields(template).items()
        if part.get("validations", {}).get("required")
    }


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    programs = tomllib.loads((REPOSITORY / "packages/palestra-gym/pyproject.toml").read_text())

    assert citation["version"] == palestra.__version__
    assert programs["project"]["version"] == palestra.__version__


def test_the_citation_has_the_project_licence() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

    assert citation["license"] == project["license"]


def test_a_bug_is_reported_with_what_a_diagnosis_needs() -> None:
    assert {"what", "diagnose", "version"} <= required("bug.yml")


def test_a_wrong_reward_is_reported_with_its_row() -> None:
    assert {"environment", "row", "version"} <= required("reward.yml")


def test_a_bug_names_one_of_the_layers() -> None:
    options = fields("bug.yml")["layer"]["attributes"]["options"]

    assert set(options) - {"not named"} == {layer.value for layer in Layer}

"""`verify-env` and the reward range of a manifest."""

import asyncio
from pathlib import Path

import pytest

from palestra.api import find_subject
from palestra.authoring import (
    ComponentKind,
    NewComponent,
    RewardDeclaration,
    scaffold_component,
)
from palestra.conformance import ExaminationLimits, check_environment

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("highest", "warns"), [(1.0, False), (0.5, True)])
def test_verify_env_warns_of_a_reward_outside_the_range_of_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, highest: float, *, warns: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    reward = RewardDeclaration(range=(0.0, highest))
    scaffold_component(
        NewComponent(ComponentKind.ENVIRONMENT, f"sums{warns:d}", reward=reward), tmp_path
    )

    subject = find_subject(f"environments/sums{warns:d}", [])
    report = asyncio.run(check_environment(subject, ExaminationLimits(hostile_s=1.0)))

    [check] = [check for check in report.checks if check.name == "range"]
    assert report.passed
    assert check.note.startswith("warning") is warns

"""Every environment that ships passes its own examination, and has what its users need."""

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from palestra.api import find_subject
from palestra.authoring import check_folder
from palestra.config import PACKAGE_ROOT
from palestra.conformance import ExaminationLimits, check_environment

FOLDERS = sorted(
    {path.parents[1] for path in (PACKAGE_ROOT / "resources_servers").glob("*/configs/*.yaml")}
)
LIBRARIES = {"gymnasium": "gymnasium", "reasoning_gym": "reasoning_gym"}
NEEDS_A_SERVER = {"openenv": "it is an adapter to a server that the reader runs"}
SETTINGS = {
    # Hostile expressions are stopped by this limit, each of them.
    name: [f"++{name}.resources_servers.{name}.grading_limit_s=2"]
    for name in ("math_with_code", "math_with_judge")
}
# A shared machine takes several times as long over a megabyte.
LIMITS = ExaminationLimits(hostile_s=20.0, repeats=2, blocked_s=0.25, blocked_by_hostile_s=2.0)

every_environment = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def needs(folder: Path) -> None:
    if folder.name in NEEDS_A_SERVER:
        pytest.skip(NEEDS_A_SERVER[folder.name])
    if folder.name in LIBRARIES and find_spec(LIBRARIES[folder.name]) is None:
        pytest.skip(f"needs {LIBRARIES[folder.name]}")


@pytest.mark.slow
@pytest.mark.timeout(300)
@every_environment
def test_a_shipped_environment_rewards_what_is_right_and_nothing_else(folder: Path) -> None:
    needs(folder)

    report = asyncio.run(
        check_environment(find_subject(folder.name, SETTINGS.get(folder.name, [])), LIMITS)
    )

    assert report.complete
    assert [found for check in report.checks for found in check.findings] == []


@pytest.mark.slow
@pytest.mark.timeout(120)
@every_environment
def test_a_shipped_environments_folder_is_whole(folder: Path) -> None:
    needs(folder)

    report = asyncio.run(check_folder(folder, timeout_s=100.0))

    assert [check for check in report.checks if not check.passed] == [], report.output

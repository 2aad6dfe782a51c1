"""Where the helpers of this folder are found, and the agents scripted for `tests/rollouts`."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "rollouts"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


AT_NO_MOMENT = {"test_fault_cuts", "test_fault_disk", "test_fault_input", "test_fault_stale"}
"""Files whose faults are on disk or in the input: how long anything takes is not looked at."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Faults strike at moments, and runs end within bounds: nothing else may load the machine."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.stem not in AT_NO_MOMENT:
            item.add_marker(pytest.mark.alone)

"""The page for users of NeMo Gym says what their commands print here, now."""

import subprocess
import sys
from pathlib import Path

import pytest
from documents import REPOSITORY

PAGE = REPOSITORY / "docs" / "from-nemo-gym.md"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_is_what_its_commands_print(tmp_path: Path) -> None:
    made = tmp_path / "page.md"

    done = subprocess.run(
        [sys.executable, "scripts/from_nemo_gym.py", str(made)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert made.read_text() == PAGE.read_text(), "python scripts/from_nemo_gym.py renews it"

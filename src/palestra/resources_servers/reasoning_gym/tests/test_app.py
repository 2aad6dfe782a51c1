"""reasoning_gym: its recorded examples get their rewards again."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from palestra.testing import assert_recorded_rewards

# Not `importorskip`: without the C extension that it names, the library is imported our way only.
pytestmark = pytest.mark.skipif(not find_spec("reasoning_gym"), reason="needs reasoning_gym")

FOLDER = Path(__file__).parents[1]


def test_the_recorded_rollouts_get_their_rewards_again() -> None:
    assert_recorded_rewards(FOLDER)

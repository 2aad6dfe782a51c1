"""math_with_code: its recorded examples get their rewards again."""

from pathlib import Path

from palestra.testing import assert_recorded_rewards

FOLDER = Path(__file__).parents[1]


def test_the_recorded_rollouts_get_their_rewards_again() -> None:
    assert_recorded_rewards(FOLDER)

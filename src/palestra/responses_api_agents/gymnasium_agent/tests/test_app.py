"""`gymnasium_agent`: model turns and steps of the environment, until the episode ends."""

from palestra.testing import ScriptedFleet, task_row

ENVIRONMENT = "blackjack"


def test_the_episode_ends_when_the_environment_says_so() -> None:
    with ScriptedFleet(ENVIRONMENT, answers=["<action>stand</action>"]) as fleet:
        result = fleet.run(task_row("Deal me in.", seed=1))

    assert len(fleet.model.asked) == 1
    assert result["reward"] in {-1.0, 0.0, 1.0, 1.5}

"""The `gym` command line (also `ng`, `palestra gym`): NeMo Gym's commands over Palestra's."""

from palestra.cli.gym.program import main, run

__all__ = ["main", "run"]

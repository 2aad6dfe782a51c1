"""What an index knows at one moment."""

from collections.abc import Sequence

from palestra.analysis import RunFrame
from palestra.metrics import IntArray, TaskIndex
from palestra.viewer.index.places import LineProblem, Part, RowPlace
from palestra.viewer.index.tables import Table


class Snapshot:
    """A run as far as it is indexed. It does not change, and is safe to use from several threads.

    `rollouts` has the fields `task rollout outcome reward agent family class layer cause attempts
    turns tools tools.count tokens.in tokens.out truncated empty answer prompt message` and every
    number, boolean or short text at the top level of a row. `outcome` is `scored`, a failure class,
    or `not ended`. Rows without indices have no task; their `line` says where they are.

    `tasks` has `task n solved pass_rate mean std learnability family prompt fingerprint`. `solved`
    is `never`, `sometimes` or `always`.
    """

    version: int
    """Grows with every change of the files."""
    rollouts: Table
    tasks: Table
    problems: Sequence[LineProblem]
    """Lines that are not rows, at most 1,000."""
    problem_count: int
    notices: Sequence[str]
    """What the tables leave out or mark, one sentence each: duplicate keys, missing inputs."""

    def find(self, task: TaskIndex, rollout: int) -> int | None:
        """Return the row number of a rollout; None when there is no such rollout."""
        raise NotImplementedError

    def find_task(self, task: TaskIndex) -> int | None:
        """Return the row number of a task in `tasks`."""
        raise NotImplementedError

    def rollouts_of(self, task_row: int) -> IntArray:
        """Return the row numbers of a task's rollouts, in order."""
        raise NotImplementedError

    def place(self, row: int, part: Part) -> RowPlace | None:
        """Return where a row of a rollout is; None when it has none of that kind."""
        raise NotImplementedError

    def attempts(self, row: int) -> Sequence[RowPlace]:
        """Return the places of the failed attempts of a rollout, in file order."""
        raise NotImplementedError

    def frame(self) -> RunFrame:
        """Return the run for the functions of `analysis`, as `load_run(…, allow_partial=True)` does.

        Raises InputDataError, as `load_run`: keys occur twice, or rollouts have no inputs.
        """
        raise NotImplementedError

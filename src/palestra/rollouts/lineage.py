"""Says by which run's rewards the tasks of a file were chosen: what `palestra select` writes beside
them.

Tasks that are chosen by their rewards in a run score nearer to the mean when they run again, without
any change of the model. So the two runs must not be compared.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import orjson

from palestra.schema import JsonObject, bare_name

PROVENANCE: Final = "_provenance.json"
MOST_FILES: Final = 3
"""The largest number of rollouts files that are all named."""


def provenance_path(tasks: Path) -> Path:
    """Return the path of the file, next to `tasks`, with the origin of the rows."""
    return tasks.with_name(Path(bare_name(tasks)).stem + PROVENANCE)


@dataclass(frozen=True, slots=True)
class SelectedFrom:
    """The run by whose rewards tasks were chosen."""

    rollouts: tuple[str, ...]
    """The absolute paths of its rollouts files."""
    rewards_digest: str

    @classmethod
    def of(cls, fields: JsonObject) -> Self:
        """Return the run in `fields`. Raises KeyError: it is not there."""
        paths = tuple(str(Path(str(name)).absolute()) for name in fields["rollouts"])
        return cls(paths, str(fields["rewards_digest"]))

    def __str__(self) -> str:
        """Return the folder and the name of each rollouts file; of many, of the first."""
        names = ["/".join(Path(name).parts[-2:]) for name in self.rollouts]
        further = len(names) - MOST_FILES
        return ", ".join(names) if further <= 0 else f"{names[0]} and {len(names) - 1} more shards"

    def is_run(self, rollouts: Iterable[Path], rewards_digest: str) -> bool:
        """Whether a run with these rollouts files and rewards is the run."""
        paths = {str(path.absolute()) for path in rollouts}
        return rewards_digest == self.rewards_digest or bool(paths & {*self.rollouts})


def selections(tasks: Iterable[Path]) -> Iterator[SelectedFrom]:
    """Yield the runs by whose rewards the rows of these files were chosen, also step by step; none
    for other files.

    A selection of failed rollouts, and one of all tasks of a run, is not made by rewards. A file of
    an older version, which lacks the number of tasks of the run, may be one of all tasks.
    """
    for path in dict.fromkeys(tasks):
        try:
            provenance = orjson.loads(provenance_path(path).read_bytes())
            run_tasks = provenance["run"].get("tasks")
            is_part = run_tasks is not None and len(provenance["tasks"]) != run_tasks
            if is_part and not provenance["criteria"]["failed"]:
                yield SelectedFrom.of(provenance["run"])
            yield from map(SelectedFrom.of, provenance["run"].get("selected_from") or ())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue

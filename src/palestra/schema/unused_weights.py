"""The weights of an environment that had no effect in a run, as every reader of the run says it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class UnusedWeights:
    """The weights for which the environment's `verify` returned no component in a whole run."""

    agent: str
    """The agent of the run's rows."""
    weights: tuple[str, ...]
    components: tuple[str, ...]
    """The components that `verify` returned, in order; empty when it returned numbers."""

    @classmethod
    def of(cls, agent: str, weights: Any, components: Collection[str]) -> "UnusedWeights | None":
        """Return those of `weights` that are not in `components`; None when all are.

        `weights`: all names, or the field `unused_weights` of one row, which may hold anything.
        `components`: the components in all rows of the agent.
        """
        names = weights if isinstance(weights, list | tuple) else ()
        unused = tuple(n for n in names if isinstance(n, str) and n not in components)
        return cls(agent, unused, tuple(sorted(components))) if unused else None

    def __str__(self) -> str:
        """Return what is unused, and what `verify` returned instead."""
        names = ", ".join(map(repr, self.weights))
        if not self.components:
            return f"weights has {names}, but no row of this run has components"
        return (
            f"weights has {names}, but verify returned no such component in this run; it returned "
            f"{', '.join(map(repr, self.components))}"
        )

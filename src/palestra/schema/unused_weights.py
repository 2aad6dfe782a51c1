"""The weights of an environment that had no effect in a run, as every reader of the run says it."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class UnusedWeights:
    """The weights for which the environment's `verify` returned no component in a whole run."""

    agent: str
    """The agent of the run's rows."""
    weights: tuple[str, ...]
    components: tuple[str, ...]
    """The components that `verify` returned, in order; empty when it returned numbers."""

    def __str__(self) -> str:
        """Return what is unused, and what `verify` returned instead."""
        names = ", ".join(map(repr, self.weights))
        if not self.components:
            return f"weights has {names}, but no row of this run has components"
        return (
            f"weights has {names}, but verify returned no such component in this run; it returned "
            f"{', '.join(map(repr, self.components))}"
        )


@dataclass(slots=True)
class WeightUse:
    """Finds the unused weights of a run, by agent, from its rows."""

    _candidates: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The weights without a component in the first row of each agent: no others can be unused."""
    _components: dict[str, set[str]] = field(default_factory=dict)

    def add(self, agent: str, unused: Any, components: Any) -> None:
        """Add one row, or all rows of an agent.

        `unused`: the field `unused_weights` of the row, the first one for several rows; or all
        weights. `components`: the names of the components. Either may hold anything, as a row may.
        """
        if agent not in self._candidates:
            names = unused if isinstance(unused, list | tuple) else ()
            self._candidates[agent] = tuple(name for name in names if isinstance(name, str))
        if self._candidates[agent] and isinstance(components, Mapping | AbstractSet):
            self._components.setdefault(agent, set()).update(components)

    def unused(self) -> Iterator[UnusedWeights]:
        """Yield the unused weights of each agent that has some."""
        for agent, candidates in self._candidates.items():
            components = self._components.get(agent, set())
            if weights := tuple(name for name in candidates if name not in components):
                yield UnusedWeights(agent, weights, tuple(sorted(components)))

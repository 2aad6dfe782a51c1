"""Carry out the composition directives; the module `tree` defines how they are written.

Every source is read from the unchanged tree, so order does not matter and two blocks may inherit
from one source. Afterwards the moved sources are removed, and parents that become empty.
"""

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from palestra.config.origins import Origins
from palestra.config.problems import did_you_mean, error_of
from palestra.config.tree import (
    ABSENT,
    COPY,
    DELETE,
    DIRECTIVES,
    MOVE,
    Steps,
    children,
    dotted,
    inherits,
    merge,
    opened,
    step_in,
    string_directive,
)
from palestra.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True)
class Composed:
    """A tree with all directives carried out.

    `takers` has the blocks of the first level that are gone since another one inherits from them, each
    with the path of that other one.
    """

    tree: dict[Any, Any]
    warnings: tuple[str, ...]
    takers: Mapping[str, str]


def compose(tree: Mapping[Any, Any], origins: Origins | None = None) -> Composed:
    """Carry out all directives of a tree. `origins`: of its values.

    Raises ConfigError: a source does not exist, directives form a cycle, a directive is not a path,
    or other keys are set next to a directive whose source is not a mapping.
    """
    composer = _Composer(tree, origins or Origins())
    composed = _without(composer.evaluate((), tree), composer.moved.keys())
    takers = {str(at[0]): dotted(to) for at, to in composer.moved.items() if at[0] not in composed}
    return Composed(composed, tuple(composer.warnings), takers)


class _Composer:
    def __init__(self, root: Mapping[Any, Any], origins: Origins) -> None:
        self._root = root
        self._origins = origins
        self._active: list[Steps] = []
        self._done: dict[Steps, Any] = {}
        self.moved: dict[Steps, Steps] = {}
        self.warnings: list[str] = []

    def evaluate(self, steps: Steps, node: Any) -> Any:
        """Return the value of `node`, at the path `steps`, with all directives in it carried out."""
        if steps in self._done:
            return self._done[steps]
        if steps in self._active:
            circle = [*self._active[self._active.index(steps) :], steps]
            path = " -> ".join(dotted(at) or "the whole config" for at in circle)
            raise self._error(steps, f"inherit_from and copy go in a circle: {path}")
        self._active.append(steps)
        self._done[steps] = value = self._fresh(steps, node)
        self._active.pop()
        return value

    def _fresh(self, steps: Steps, node: Any) -> Any:
        if string_directive(node):
            node = opened(node)
        if isinstance(node, Mapping):
            return self._mapping(steps, node)
        if isinstance(node, list):
            return [self.evaluate((*steps, index), item) for index, item in enumerate(node)]
        return node

    def _mapping(self, steps: Steps, node: Mapping[Any, Any]) -> Any:
        own_keys = {
            key: self.evaluate((*steps, key), item)
            for key, item in node.items()
            if key not in DIRECTIVES
        }
        value = self._with_source(steps, node, own_keys)
        if DELETE in node:
            value = self._without_deleted(steps, node[DELETE], value)
        return value

    def _with_source(self, steps: Steps, node: Mapping[Any, Any], own_keys: dict[Any, Any]) -> Any:
        directives = [key for key in (MOVE, COPY) if key in node]
        if not directives:
            return own_keys
        if len(directives) > 1:
            raise self._error(steps, f"{dotted(steps)} has both {MOVE} and {COPY}; it can have one")
        source = self._source(steps, directives[0], node[directives[0]])
        if own_keys and not isinstance(source, Mapping):
            raise self._error(
                (*steps, directives[0]),
                f"{dotted(steps)}.{directives[0]}: {node[directives[0]]} is not a mapping, "
                f"so nothing can be set beside it: {', '.join(map(str, own_keys))}",
            )
        return merge(source, own_keys) if own_keys else source

    def _source(self, steps: Steps, directive: str, path: Any) -> Any:
        if not isinstance(path, str) or not path.strip():
            raise self._error(
                (*steps, directive),
                f"{dotted(steps)}.{directive} must be the dotted path of a config section, such as a.b.c",
            )
        source_steps = tuple(path.strip().split("."))
        value, at = self._look_up(source_steps, wanted_by=(*steps, directive))
        if directive == MOVE:
            self.moved[at] = steps
        return copy.deepcopy(value)

    def _look_up(self, path: Steps, *, wanted_by: Steps) -> tuple[Any, Steps]:
        """Return the evaluated value at a path, and the path with its real keys (numbers as
        numbers).
        """
        node: Any = self._root
        at: Steps = ()
        evaluated = False
        for step in path:
            if not evaluated and inherits(node):
                node, evaluated = self.evaluate(at, node), True
            key = step_in(node, step)
            if key is ABSENT:
                names = [str(name) for name, _ in children(node)]
                raise self._error(
                    wanted_by,
                    f"{dotted(wanted_by)}: there is no {dotted(path)} in the config"
                    + did_you_mean(str(step), names),
                )
            node, at = node[key], (*at, key)
        return (node if evaluated else self.evaluate(at, node)), at

    def _without_deleted(self, steps: Steps, names: Any, value: Any) -> Any:
        deleted = names.split(",") if isinstance(names, str) else names
        if not isinstance(deleted, list) or not isinstance(value, Mapping):
            raise self._error(
                (*steps, DELETE),
                f"{dotted(steps)}.{DELETE} must be a list of keys of a mapping",
                hint=f'for example {DELETE}: "key_a, key_b"',
            )
        remaining = dict(value)
        for name in deleted:
            key = step_in(remaining, name.strip() if isinstance(name, str) else name)
            if key is ABSENT:
                self.warnings.append(
                    f"{dotted(steps)}.{DELETE} names the key {str(name).strip()!r}, which does "
                    "not exist" + did_you_mean(str(name).strip(), map(str, remaining))
                )
            else:
                del remaining[key]
        return remaining

    def _error(self, steps: Steps, message: str, *, hint: str = "") -> ConfigError:
        problem = Problem(message, key=dotted(steps), hint=hint)
        return error_of([self._origins.located(problem, *steps)])


def _without(tree: Any, moved: Collection[Steps], steps: Steps = ()) -> Any:
    """Return the tree without the moved paths and without containers that this made empty."""
    if not any(path[: len(steps)] == steps for path in moved):
        return tree
    remaining = []
    for step, item in children(tree):
        below = (*steps, step)
        if below in moved:
            continue
        remainder = _without(item, moved, below)
        if item and not remainder and isinstance(remainder, dict | list):
            continue
        remaining.append((step, remainder))
    return [item for _, item in remaining] if isinstance(tree, list) else dict(remaining)

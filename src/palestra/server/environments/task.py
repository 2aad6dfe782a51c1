"""The task row as an author's code sees it: all fields of the row, read-only."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, final

from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    EXTRACTED_ANSWER,
    JUDGE_EVALUATIONS,
    OUTSIDE_REWARD_RULES,
    REWARD_COMPONENTS,
    TOOL_FAILURES,
    TURN_LIMIT_REACHED,
    UNUSED_WEIGHTS,
    JsonDict,
)

RESPONSE: Final = "response"
RNG_SEED: Final = "rng_seed"
"""The field of a scored row with the seed of `self.rng`, so that a re-verification draws the same
numbers."""

REPORTED: Final = frozenset(
    {
        EXTRACTED_ANSWER,
        REWARD_COMPONENTS,
        JUDGE_EVALUATIONS,
        OUTSIDE_REWARD_RULES,
        RNG_SEED,
        TOOL_FAILURES,
        TURN_LIMIT_REACHED,
        UNUSED_WEIGHTS,
        "reward",
    }
)
"""Fields that the verify response adds to a row. A task row must not have them."""

_OF_THE_PROTOCOL: Final = REPORTED | {CREATE_PARAMS, RESPONSE, AGENT_REF}
_INTERNAL: Final = "_ng_"
"""The prefix of fields that belong to the run, such as the row's indices."""


def task_fields(row: Mapping[str, Any]) -> JsonDict:
    """Return the author's own fields of a row, without those of the protocol and of the verdict."""
    return {
        name: value
        for name, value in row.items()
        if name not in _OF_THE_PROTOCOL and not name.startswith(_INTERNAL)
    }


def read_only(value: Any) -> Any:
    """Return a copy of a JSON value that cannot be changed. It equals the original value."""
    if isinstance(value, Mapping):
        return ReadOnlyDict((name, read_only(item)) for name, item in value.items())
    if isinstance(value, list):
        return ReadOnlyList(read_only(item) for item in value)
    return value


def own_copy(value: Any) -> Any:
    """Return a copy of a JSON value that its owner may change."""
    if isinstance(value, Mapping):
        return {name: own_copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [own_copy(item) for item in value]
    return value


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    kind = "dict" if isinstance(self, dict) else "list"
    raise TypeError(
        f"the task is read-only: change a copy, such as {kind}(task[...]) or copy.deepcopy(task)"
    )


@final
class ReadOnlyDict(dict[str, Any]):
    """A `dict` that refuses changes. `copy.deepcopy` returns an ordinary `dict`."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        return copy.deepcopy(dict(self), memo)

    def __reduce__(self) -> Any:
        return ReadOnlyDict, (dict(self),)


@final
class ReadOnlyList(list[Any]):
    """A `list` that refuses changes. `copy.deepcopy` returns an ordinary `list`."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return copy.deepcopy(list(self), memo)

    def __reduce__(self) -> Any:
        return ReadOnlyList, (list(self),)


def reserved_fields(names: Iterable[str]) -> list[str]:
    """Return those of `names` that a task row must not have, because the verify response has them."""
    return sorted(REPORTED & set(names))

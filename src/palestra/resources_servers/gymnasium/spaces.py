"""Convert between Gymnasium spaces and text: observations to text, and text to actions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from palestra.resources_servers.actions import last_action

if TYPE_CHECKING:
    from gymnasium import Space

LONGEST_ACTION = 10_000


class NoAction(Exception):
    """Raised when a text has no action of the space; the model reads the message."""


def action_in(text: str, space: "Space[Any]", names: Mapping[str, int]) -> Any:
    """Return the action in the last `<action>…</action>`: a name, a number, a text, or JSON.

    Raises NoAction: there is no valid action; the message lists the valid ones.
    """
    text_action = last_action(text)
    if text_action is None:
        raise NoAction("Your turn holds no <action>…</action>.")
    written = text_action[:LONGEST_ACTION]
    by_name = {name.casefold(): number for name, number in names.items()}
    name = written.strip("\"'").casefold()
    if name in by_name:
        return by_name[name]
    action = _of_space(written, space)
    if action is None:
        hint = f" It is one of: {', '.join(names)}." if names else f" Actions are {space}."
        raise NoAction(f"{written[:100]!r} is not an action.{hint}")
    return action


def unplayable(space: "Space[Any]") -> "Space[Any] | None":
    """Return the first part of an action space that cannot be written as text or JSON; None if all
    can.
    """
    from gymnasium import spaces

    kinds = spaces.Text, spaces.Discrete, spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary
    if isinstance(space, kinds):
        return None
    if isinstance(space, spaces.Tuple):
        parts = list(space.spaces)
    elif isinstance(space, spaces.Dict):
        parts = list(space.spaces.values())
    elif isinstance(space, spaces.Sequence) and not space.stack:
        parts = [space.feature_space]
    else:
        return space
    return next((reason for part in parts if (reason := unplayable(part)) is not None), None)


def _of_space(written: str, space: "Space[Any]") -> Any:
    """Parse `written` as an action of the space; None when it is not valid."""
    from gymnasium import spaces

    try:
        value = written if isinstance(space, spaces.Text) else orjson.loads(written)
        action = _value(value, space)
        return action if space.contains(action) else None
    except (ValueError, TypeError, OverflowError):  # spaces refuse in many ways
        return None


def _value(value: Any, space: "Space[Any]") -> Any:
    """Convert a JSON value into a value of the space. Raises ValueError or TypeError: wrong form."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return _whole_number(value)
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return _numbers(value, space)
    if isinstance(space, spaces.Tuple):
        return tuple(_value(*pair) for pair in zip(value, space.spaces, strict=True))
    if isinstance(space, spaces.Sequence):
        return tuple(_value(part, space.feature_space) for part in value)
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            raise ValueError("the keys are not those of the action space")
        return {name: _value(value[name], part) for name, part in space.spaces.items()}
    return value


def _numbers(value: Any, space: "Space[Any]") -> Any:
    """Convert numbers into an array of the space; a single number needs no brackets."""
    import numpy as np

    array = np.array(value)
    flat = np.array(value, dtype=object).ravel()
    if array.dtype.kind not in "iuf" or any(isinstance(part, bool) for part in flat):
        raise ValueError("must contain only numbers")
    converted = array.astype(space.dtype)
    if space.dtype is not None and space.dtype.kind in "iu" and (converted != array).any():
        raise ValueError("must be whole numbers, as many as the action space has")
    return converted.reshape(space.shape) if converted.shape == () and space.shape else converted


def _whole_number(value: Any) -> int:
    if isinstance(value, bool) or value != int(value):
        raise ValueError("not a whole number")
    return int(value)


def observation_text(observation: Any, space: "Space[Any]") -> str:
    """Return an observation as text for the model: text unchanged, anything else as JSON."""
    if isinstance(observation, str):
        return observation
    try:
        (plain,) = space.to_jsonable([observation])
        return orjson.dumps(plain, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except Exception:  # to_jsonable is not the same for every kind of space
        return str(observation)


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step's info as JSON values; values that JSON cannot represent are left out."""
    plain = {}
    for name, value in info.items():
        try:
            plain[str(name)] = orjson.loads(
                orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
            )
        except orjson.JSONEncodeError:
            continue
    return plain

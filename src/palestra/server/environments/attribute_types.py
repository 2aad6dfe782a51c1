"""Check the values of an environment's attributes before anything runs.

An author may have written what another library takes, such as a list of messages as the prompt.
"""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import PurePath
from typing import Any, Final

from palestra.errors import ConfigError
from palestra.server.reward_rules import RewardRules

_TEXTS: Final = {"prompt": '"{question}"', "system": '"Answer with a number."'}
"""The attributes that are texts, each with an example."""
_MESSAGES: Final = (
    'def messages(self, task): return [{"role": "user", "content": task["question"]}]'
)


def refuse_wrong_values(cls: type[Any], owner: str, location: Callable[[str], str]) -> None:
    """Raise ConfigError when an attribute of `cls` has a value of a type that it cannot have.

    `owner`: the environment's name. `location`: where the author's code sets an attribute, by name.
    """
    for name in _TEXTS:
        value = getattr(cls, name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(
                f"{location(name)}{owner}: {name} must be a text, not {_kind(value)}",
                hint=_text_hint(name, value),
            )
    gold = getattr(cls, "gold", None)
    if gold is not None and not isinstance(gold, str) and not callable(gold):
        raise ConfigError(
            f"{location('gold')}{owner}: gold must be a text or a method, not {_kind(gold)}",
            hint='write gold = "{expected}", or def gold(self, task): return …, which returns a text, '
            "or a list of calls and texts",
        )
    if not isinstance(cls.isolated, bool):
        raise ConfigError(
            f"{location('isolated')}{owner}: isolated must be True or False, not {cls.isolated!r:.80}"
        )
    if not isinstance(cls.reward_rules, RewardRules):
        raise ConfigError(
            f"{location('reward_rules')}{owner}: reward_rules must be RewardRules, not "
            f"{cls.reward_rules!r:.80}",
            hint=f"write reward_rules = {_rules_text(cls.reward_rules)}, and from palestra import "
            "RewardRules",
        )


def _kind(value: Any) -> str:
    return "a function" if callable(value) else f"{type(value).__name__}: {value!r:.80}"


def _text_hint(name: str, value: Any) -> str:
    if callable(value):
        return f"a function of the row is messages: {_MESSAGES}"
    if isinstance(value, PurePath):
        return f"write {name} = (Path(__file__).parent / {str(value)!r}).read_text()"
    one_text = f"write {name} = {_TEXTS[name]}"
    if isinstance(value, Sequence | Mapping) and not isinstance(value, bytes):
        return f"{one_text}; a class may make a list of messages: {_MESSAGES}"
    return one_text


def _rules_text(value: Any) -> str:
    """Return the rules that a value of another type most likely means, as Python text."""
    if isinstance(value, Mapping) and value:
        limits = {str(name): limit for name, limit in value.items()}
    elif isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value)):
        limits = {"lowest": value[0], "highest": value[1]}
    else:
        limits = {"highest": value if is_number(value) else 2}
    return f"RewardRules({', '.join(f'{name}={limit!r}' for name, limit in limits.items())})"


def is_number(value: object) -> bool:
    """Whether a value is a real number, and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)

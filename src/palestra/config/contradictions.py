"""Find the override that contradicts the flag of a command."""

from collections.abc import Iterable
from typing import Any

from palestra.config.overrides import OverrideAction, override_key, parse_overrides
from palestra.config.redact import mask_line
from palestra.config.tree import ABSENT, value_at
from palestra.errors import ConfigError


def contradicting_override(setting: str, value: Any, overrides: Iterable[str]) -> str:
    """Return the first override that gives `setting` another value than `value`, or deletes it; empty
    when there is none. The value of a secret is masked.

    `setting`: a dotted key. `value`: what the flag gives. An override that cannot be parsed is none:
    loading the configuration reports it.
    """
    steps = tuple(setting.split("."))
    for text in overrides:
        key = override_key(text)
        if key and f"{setting}.".startswith(f"{key}.") and _gives_another(text, steps, value):
            return mask_line(text)
    return ""


def _gives_another(text: str, steps: tuple[str, ...], value: Any) -> bool:
    try:
        [override] = parse_overrides([text])
    except ConfigError:
        return False
    if override.action is OverrideAction.DELETE:
        return True
    overriding = value_at(override.value, steps[len(override.steps) :])
    return overriding is not ABSENT and overriding != value and str(overriding) != str(value)

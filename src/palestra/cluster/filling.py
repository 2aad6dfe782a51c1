"""Overrides that name what an option decides, and a key given by value: both become options.

The field gives `+agent_name=… +limit=…` where options of the same meaning exist.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from palestra.cluster.secrets import PLACEHOLDERS, SHORTEST
from palestra.config import (
    Override,
    OverrideAction,
    is_secret_name,
    parse_overrides,
    raise_problems,
)
from palestra.settings import config_list

OPTION_OF: Final = {
    "agent_name": "agent_name",
    "config_paths": "config_paths",
    "input_jsonl_fpath": "input_file",
    "limit": "limit",
    "num_repeats": "num_repeats",
    "num_samples_in_parallel": "num_samples_in_parallel",
    "overwrite": "rerun_done",
    "policy_api_key": "policy_api_key",
    "policy_model_name": "policy_model_name",
}
"""Settings of the field's commands, and the option that decides each."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Options, the overrides that are left for the stages, and what a user should know."""

    options: dict[str, Any]
    extra: tuple[str, ...]
    notices: tuple[str, ...] = ()


def filled(options: Mapping[str, Any], extra: Sequence[str], environ: Mapping[str, str]) -> Filled:
    """The options with what overrides say of them.

    `environ`: where the variable of a key that was given by value is looked for.
    Raises ConfigError for an option that is given twice with different values.
    """
    from_overrides, rest = _by_option(extra)
    values = {name: value for name, value in options.items() if value not in (None, False)}
    problems = [
        f"--{name.replace('_', '-')} is given more than once, with different values (an override says it too)"
        for name, given in from_overrides.items()
        if len({_comparable(name, v) for v in (*given, *_given(values, name))}) > 1
    ]
    raise_problems(problems, hint="give each once: as an option or as an override")
    values = {**options, **{name: given[0] for name, given in from_overrides.items()}}
    values, notices = _with_key_variable(values, environ)
    return Filled(values, (*rest, *_placeholder_key(values)), notices)


def _given(options: Mapping[str, Any], name: str) -> Iterable[Any]:
    return (options[name],) if name in options else ()


def _by_option(extra: Sequence[str]) -> tuple[dict[str, list[Any]], list[str]]:
    """The values that overrides have for options, and the overrides of everything else."""
    values: dict[str, list[Any]] = {}
    rest = []
    for text, override in zip(extra, parse_overrides(extra), strict=True):
        if _fills(override):
            # A key of digits alone is a number in Hydra's grammar.
            is_key = is_secret_name(override.key)
            value = str(override.value) if is_key else override.value
            values.setdefault(OPTION_OF[override.key], []).append(value)
        elif not (override.key == "resume_from_cache" and override.value is True):
            rest.append(text)  # but for what is always so: jobs go on from what is there
    return values, rest


def _fills(override: Override) -> bool:
    """Whether it gives an option's value: not when it deletes, or is read inside the job."""
    value = override.value
    return (
        override.key in OPTION_OF
        and override.action is not OverrideAction.DELETE
        and value is not None
        and not (isinstance(value, str) and "${" in value)
    )


def _comparable(name: str, value: Any) -> str:
    values = config_list(value) if name == "config_paths" else value
    return str(tuple(values)) if isinstance(values, list | tuple) else str(values)


def _with_key_variable(
    options: dict[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A key by value, of a server that runs already, as the variable that holds it: only names
    of variables are written down.
    """
    key = str(options.get("policy_api_key") or "")
    if not options.get("server_address") or len(key) < SHORTEST or key.lower() in PLACEHOLDERS:
        return options, ()
    names = sorted(name for name, value in environ.items() if value == key)
    names.sort(key=lambda name: not is_secret_name(name))
    if not names or options.get("policy_api_key_env") not in (None, names[0]):
        return options, ()
    notice = f"--policy-api-key is read from the variable {names[0]} in the jobs"
    return {**options, "policy_api_key": None, "policy_api_key_env": names[0]}, (notice,)


def _placeholder_key(options: Mapping[str, Any]) -> tuple[str, ...]:
    """`dummy` and its like, for servers that no job starts: those have a key of their own."""
    key = str(options.get("policy_api_key") or "")
    started = options.get("server_gpus") or options.get("server_cpu")
    is_placeholder = bool(key) and key.lower() in PLACEHOLDERS
    return (f"++policy_api_key={key}",) if is_placeholder and not started else ()

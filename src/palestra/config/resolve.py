"""Resolve `${interpolations}` through OmegaConf and find settings without a value."""

import contextlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from palestra.config.origins import Origins
from palestra.config.problems import did_you_mean, raise_problems, slip_of
from palestra.config.redact import Redactor, find_secrets
from palestra.config.tree import Steps, dotted, leaves, nested
from palestra.errors import ConfigError, KnownCause, Problem

if TYPE_CHECKING:
    from omegaconf import DictConfig

MISSING = "???"

# OmegaConf says which key was missing only in its messages.
_KEY_NOT_FOUND = re.compile(r"Interpolation key '([^']*)' not found")
_MANDATORY = re.compile(r"Missing mandatory value: (\S+)")
_NOT_A_CONTAINER = re.compile(r"Error trying to access (\S+): node")
_NEEDED = re.compile(r"\s*\$\{(policy_base_url|policy_model_name)\}\s*")
"""Settings of `env.yaml` that a model server never does without: a line without a value is no value."""
_IN_A_CIRCLE = "the interpolation goes in a circle"
_ENVIRONMENT = re.compile(r"Environment variable '([^']*)' not found")
_UNKNOWN_RESOLVER = re.compile(r"Unsupported interpolation type (\S+)$")
_WITHOUT_ARGUMENT = re.compile(r"(\w+)\(\) missing 1 required positional argument: '(\w+)'")
_RESOLVERS = (
    *("oc.create", "oc.decode", "oc.deprecated", "oc.dict.keys", "oc.dict.values", "oc.env"),
    "oc.select",
)
"""The resolvers of OmegaConf."""


@dataclass(frozen=True)
class Missing:
    """A setting without a value: the setting at `steps` needs `key` (itself, for `???`)."""

    steps: Steps
    key: str
    environment: bool = False
    """Whether `key` is an environment variable, not a setting."""
    is_empty: bool = False
    """Whether `key` is in a file, but without a value."""

    @property
    def path(self) -> str:
        return dotted(self.steps)

    def within(self, entries: Collection[str]) -> bool:
        """Whether the setting lies below one of these top-level entries."""
        return any(self.path == entry or self.path.startswith(f"{entry}.") for entry in entries)

    def __str__(self) -> str:
        if self.environment:
            return f"{self.path} needs the environment variable {self.key}: export {self.key}=…"
        needs = "has no value" if self.key == self.path else f"needs {self.key}"
        if self.is_empty:
            needs += ", which is empty"
        return f"{self.path} {needs}: ++{self.key}=<value>"


def resolve(
    tree: Mapping[Any, Any],
    *,
    require_all: bool = True,
    required: Collection[str] | None = None,
    origins: Origins = Origins(),  # noqa: B008  # frozen
    note: Callable[[], str] = str,
) -> dict[Any, Any]:
    """Return the tree with every interpolation replaced by its value, as plain Python values.

    Settings without a value are listed in one error. They become empty strings instead with
    `require_all=False`, and outside of the top-level entries `required` if given. Cycles, unknown
    resolvers and malformed `${` are always errors. `origins`: where the tree comes from, for messages.
    `note`: returns what to say first in the hint about settings without a value.
    """
    resolver = _Resolver(tree, origins)
    resolved: dict[Any, Any] = resolver.walk(tree, ())
    raise_problems(resolver.problems)
    missing = [
        missing_value
        for missing_value in resolver.missing
        if required is None or missing_value.within(required)
    ]
    if require_all and missing:
        plain_keys = [name for name, value in tree.items() if not isinstance(value, Mapping)]
        raise _nothing_given(missing, origins, note(), plain_keys)
    return resolved


def _nothing_given(
    missing: list[Missing], origins: Origins, note: str, plain_keys: Collection[str]
) -> ConfigError:
    cause = KnownCause.MISSING_VALUE
    problems = [
        origins.located(
            Problem(str(missing_value), key=missing_value.path, cause=cause), *missing_value.steps
        )
        for missing_value in missing
    ]
    listed = "\n".join(f"  {problem.message}" for problem in problems)
    settings = [missing_value.key for missing_value in missing if not missing_value.environment]
    near = slip_of(settings[0], plain_keys) if settings else None
    slip = f"{near} is given: write {settings[0]}" if near else ""
    hint = "; ".join(filter(None, (slip, note, _how_to_give(settings[0])))) if settings else ""
    count = "1 setting has" if len(missing) == 1 else f"{len(missing)} settings have"
    counted = (replace(p, message=f"{count} no value: {p.message}") for p in problems)
    return ConfigError(
        f"{count} no value:\n{listed}", hint=hint, cause=cause, problems=tuple(counted)
    )


def _how_to_give(setting: str) -> str:
    command_line = f"give each on the command line, ++{setting}=<value>"
    if any(step.isdecimal() for step in setting.split(".")):
        return command_line  # a part of a list, which a file gives as a whole
    return f"{command_line}, or as a line of env.yaml, {nested(setting, '<value>')}"


class _Resolver:
    def __init__(self, tree: Mapping[Any, Any], origins: Origins) -> None:
        self._tree = tree
        self._origins = origins
        self._redactor = Redactor(find_secrets(tree))
        self._config_cache: DictConfig | None = None
        self.missing: list[Missing] = []
        self.problems: list[Problem] = []

    @property
    def _config(self) -> "DictConfig":
        """The tree as an OmegaConf config. Made at the first interpolation, because many trees have
        none.
        """
        if self._config_cache is None:
            self._config_cache = _omegaconf(self._tree, self._origins)
        return self._config_cache

    def walk(self, node: Any, steps: Steps) -> Any:
        if isinstance(node, Mapping):
            return {key: self.walk(item, (*steps, key)) for key, item in node.items()}
        if isinstance(node, list):
            return [self.walk(item, (*steps, index)) for index, item in enumerate(node)]
        if node == MISSING:
            self.missing.append(Missing(steps, dotted(steps)))
            return ""
        if isinstance(node, str) and "${" in node:
            return self._interpolate(node, steps)
        return node

    def _interpolate(self, text: str, steps: Steps) -> Any:
        from omegaconf.errors import OmegaConfBaseException

        parent: Any = self._config
        for step in steps[:-1]:
            parent = parent[step]
        try:
            value = _plain_value(parent, steps[-1])
        except OmegaConfBaseException as failure:
            missing = self._missing_from(failure, text, steps)
            if missing is None:
                self._add_problem(steps, self._redactor(str(failure).splitlines()[0]))
                return ""
            self.missing.append(missing)
            self._find_more(parent, text, steps, missing)
            return ""
        except RecursionError:
            self._add_problem(steps, _IN_A_CIRCLE)
            return ""
        if value is None and (reference := _NEEDED.fullmatch(text)):
            self.missing.append(Missing(steps, reference[1], is_empty=True))
            return ""
        return value

    def _missing_from(self, failure: Exception, text: str, steps: Steps) -> Missing | None:
        message = str(failure)
        if match := _ENVIRONMENT.search(message):
            return Missing(steps, match[1], environment=True)
        if match := _KEY_NOT_FOUND.search(message):
            return Missing(steps, _absolute(match[1], text, steps))
        match = _MANDATORY.search(message) or _NOT_A_CONTAINER.search(message)
        return Missing(steps, match[1]) if match else None

    def _find_more(self, parent: Any, text: str, steps: Steps, first: Missing) -> None:
        """Record the other missing keys of a text such as `${a}/${b}`; OmegaConf reports only one."""
        from omegaconf.errors import OmegaConfBaseException

        current = first
        while (remainder := _without_reference(text, current.key)) != text:
            text = remainder
            try:
                parent[steps[-1]] = text
                _ = parent[steps[-1]]
                break
            except OmegaConfBaseException as failure:
                another = self._missing_from(failure, text, steps)
                if another is None or another in self.missing:
                    break
                self.missing.append(another)
                current = another
        self._restore(parent, steps)

    def _restore(self, parent: Any, steps: Steps) -> None:
        node: Any = self._tree
        for step in steps:
            node = node[step]
        parent[steps[-1]] = node

    def _add_problem(self, steps: Steps, reason: str) -> None:
        problem = Problem(f"{dotted(steps)}: {_in_our_words(reason)}", key=dotted(steps))
        self.problems.append(self._origins.located(problem, *steps))


def _in_our_words(reason: str) -> str:
    """Return what is wrong with an interpolation. `reason`: OmegaConf's message."""
    if "Recursive interpolation" in reason:
        return _IN_A_CIRCLE
    if match := _UNKNOWN_RESOLVER.match(reason):
        return reason + did_you_mean(match[1].lower(), _RESOLVERS)
    if match := _WITHOUT_ARGUMENT.search(reason):
        name = next((name for name in _RESOLVERS if name.endswith(f".{match[1]}")), match[1])
        argument = "VARIABLE" if name == "oc.env" else match[2].upper()
        return f"${{{name}:}} has nothing after its colon; write ${{{name}:{argument}}}"
    return reason


def _absolute(key: str, text: str, steps: Steps) -> str:
    """Return the path of `key` from the root; `text` may contain it as the relative `${..key}`."""
    relative = re.search(r"\$\{\s*(\.+)\s*" + re.escape(key) + r"\s*\}", text)
    if relative is None:
        return key
    return dotted((*steps[: -len(relative[1])], key))


def _without_reference(text: str, key: str) -> str:
    last = re.escape(key.rpartition(".")[2])
    return re.sub(r"\$\{\s*(?:oc\.env:\s*)?[^${}:]*\b" + last + r"\s*\}", "", text, count=1)


def _plain_value(parent: Any, key: Any) -> Any:
    from omegaconf import OmegaConf

    value = parent[key]
    if OmegaConf.is_config(value):
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
    return value


def _omegaconf(tree: Mapping[Any, Any], origins: Origins) -> "DictConfig":
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    with contextlib.suppress(OmegaConfBaseException):
        return OmegaConf.create(dict(tree))
    # Said out here, in our words: OmegaConf's error quotes the text, which may be a secret.
    malformed = [(steps, p) for steps, leaf in leaves(tree) if (p := _malformed(steps, leaf))]
    raise_problems([origins.located(problem, *steps) for steps, problem in malformed])
    raise ConfigError("the configuration holds a key or value that OmegaConf does not accept")


def _malformed(steps: Steps, leaf: Any) -> Problem | None:
    """Return the problem of one text that OmegaConf cannot parse; None when it can."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        OmegaConf.create([leaf])
    except OmegaConfBaseException:
        text = f"{dotted(steps)}: malformed interpolation; write a literal ${{ as \\${{"
        return Problem(text, key=dotted(steps))
    return None

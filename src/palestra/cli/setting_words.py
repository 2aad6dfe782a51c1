"""Words of a command line that name a setting of an environment in one file, without `--set`."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from palestra.config import NamedFile, is_secret_name
from palestra.errors import ConfigError


def option_as_setting(option: str, arguments: Sequence[str]) -> str:
    """Return `--set` with the setting that an unknown option names; empty when no file among the
    arguments has one of this name.
    """
    name = option.lstrip("-").replace("-", "_")
    if name not in _setting_names(arguments):
        return ""
    typed = next((word for word in arguments if word.partition("=")[0] == option), option)
    value = typed.partition("=")[2]
    following = arguments[arguments.index(typed) + 1 :] if typed in arguments else []
    if not value and following and not following[0].startswith("-"):
        value = following[0]
    return f"--set {_to_type(f'{name}={value}') if value else f'{name}=VALUE'}"


def refuse_settings_among(overrides: Sequence[str], arguments: Sequence[str]) -> None:
    """Raise ConfigError: an override is a setting of a file among the arguments."""
    pairs = [word for word in overrides if word.partition("=")[0].isidentifier()]
    names = frozenset(_setting_names(arguments)) if pairs else frozenset[str]()
    if settings := [word for word in pairs if "=" in word and word.partition("=")[0] in names]:
        raise ConfigError(
            f"{_to_type(settings[0])} is a setting of the environment, which --set takes",
            hint=" ".join(f"--set {_to_type(word)}" for word in settings),
        )


def _to_type(setting: str) -> str:
    """Return `KEY=VALUE` to type, without the value of a secret."""
    name = setting.partition("=")[0]
    return f"{name}=VALUE" if is_secret_name(name) else shlex.quote(setting)


def _setting_names(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the names of the settings of each file among the arguments, which is not run."""
    files = [file for word in arguments if (file := NamedFile.parse(word)) is not None]
    if not files:
        return
    from palestra.authoring import environments_in_file

    for file in files:
        for environment in environments_in_file(Path(file.path)):
            yield from (name for name, *_ in environment.settings)

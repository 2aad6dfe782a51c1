"""Keep secrets in environment variables only: check every text for them before it is written.

A component gets a secret by inheriting its variable. The value is in no script, plan, argument or
ledger.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from palestra.config import Override, find_secrets, is_secret_name, parse_overrides
from palestra.errors import ConfigError

SHELL: Final = ("$", "`")
_INTERPOLATION: Final = re.compile(r"^\$\{\s*oc\.env\s*:")
_FLAG: Final = re.compile(r"^--?([A-Za-z][\w.\-]*)")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
SHORTEST: Final = 6
"""Values of secret variables shorter than this are not searched for: ordinary words contain them.
"""
SHORTEST_OTHER: Final = 12
"""Like `SHORTEST`, for variables not declared as secrets, whose names only look like secrets."""
PLACEHOLDERS: Final = frozenset({"", "none", "null", "dummy", "empty", "{nonce}", "???"})


def env_problems(env: Mapping[str, str], where: str) -> list[str]:
    """Return what is wrong with literal variables: shell expressions, secrets, invalid names."""
    return [
        *(
            f"{where}: {name} contains {sign!r}, but shell expressions are not evaluated here"
            for name, value in env.items()
            for sign in SHELL
            if sign in value
        ),
        *(
            f"{where}: {name} looks like a secret; name it under inherit_env and export it"
            for name, value in env.items()
            if is_secret_name(name) and value.lower() not in PLACEHOLDERS
        ),
        *(
            f"{where}: {name!r} is not a name of a variable"
            for name in env
            if not re.fullmatch(r"[A-Za-z_]\w*", name)
        ),
    ]


def override_problems(overrides: Iterable[str], where: str) -> list[str]:
    """Return a message for each override that would write a secret to the plan. Never shows the
    value.
    """
    return [
        f"{where}: {override.key} is a secret and would be readable in the plan file; use "
        "--policy-api-key-env, or ${oc.env:VARIABLE}"
        for override in parse_overrides(overrides)
        if _tells_secret(override)
    ]


def _tells_secret(override: Override) -> bool:
    value = override.value
    if not isinstance(value, str):
        return bool(find_secrets({override.steps[-1]: value}))
    if value.startswith(("http://", "https://")) and address_problem(value, override.key):
        return True
    return (
        is_secret_name(override.steps[-1])
        and value.lower() not in PLACEHOLDERS
        and not _INTERPOLATION.match(value)
    )


def argument_problems(arguments: Sequence[str], where: str) -> list[str]:
    """Return a message for each command-line flag whose name means that a secret follows."""
    return [
        f"{where}: --{match[1]} would be readable in the process list; leave it out, as each job "
        "makes a key for its self-hosted server"
        for text, following in pairwise([*arguments, ""])
        if (match := _FLAG.match(text))
        and is_secret_name(match[1])
        and not _names_variable(match[1], text[match.end() + 1 :] or following)
    ]


def _names_variable(flag: str, value: str) -> bool:
    """Whether a flag such as `--key-env` takes the name of a variable, and `value` is such a name."""
    return flag.lower().endswith(("-env", "_env")) and bool(_VARIABLE.fullmatch(value))


def key_problems(arguments: Iterable[str], part: str) -> list[str]:
    """Return a message when a command line contains the key that is made for each job."""
    if not any("{nonce}" in text for text in arguments):
        return []
    where = "a server finds it in the variable PALESTRA_SERVER_KEY"
    return [f"{part}: the job's key would be readable in the process list; {where}"]


def address_problem(address: str, where: str) -> str:
    """Return why an address may not be written to a file; empty when it may. Never shows the
    address.
    """
    try:
        parts = urlsplit(address)
        query = parse_qsl(parts.query)
    except ValueError as error:
        return f"{where} is not a URL: {error}"
    if parts.username or parts.password or any(is_secret_name(name) for name, _ in query):
        return (
            f"{where} has a secret, which would be readable in the plan file; use "
            "--policy-api-key-env"
        )
    return ""


def variable_problem(name: str, where: str) -> str:
    """Return why `name` is no valid name of a variable; empty when it is. Never shows `name`."""
    if re.fullmatch(r"[A-Za-z_]\w*", name):
        return ""
    return f"{where} must be the name of an environment variable, and is something else"


def check_absent(
    texts: Mapping[str, str],
    names: Iterable[str],
    environ: Mapping[str, str],
    values: Collection[str] = (),
) -> None:
    """Raise ConfigError when a text contains the value of a secret variable.

    `values`: further secrets from the configuration, such as those in env.yaml. This is the last
    check before anything is written, for secrets that entered in any way.
    """
    for secret_name, value in _sought(names, environ, values):
        for where, text in texts.items():
            if value in text:
                raise _secret_in_text(secret_name, where)


def check_folder_absent(
    folder: Path,
    names: Iterable[str],
    environ: Mapping[str, str],
    values: Collection[str] = (),
) -> None:
    """Raise ConfigError when a file below `folder` contains a secret. A missing folder is fine."""
    sought = [
        (secret_name, value.encode()) for secret_name, value in _sought(names, environ, values)
    ]
    for path in sorted(folder.rglob("*")) if sought else ():
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            for secret_name, value in sought:
                if value in content:
                    raise _secret_in_text(secret_name, str(path.relative_to(folder.parent)))


def _sought(
    names: Iterable[str], environ: Mapping[str, str], values: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield each secret value to search for, after the text that describes it in messages."""
    secret_names = frozenset(names)
    for name in sorted({*secret_names, *filter(is_secret_name, environ)}):
        value = environ.get(name, "")
        if len(value) >= (SHORTEST if name in secret_names else SHORTEST_OTHER):
            yield f"the value of {name}", value
    for value in values:
        if len(value) >= SHORTEST_OTHER:
            yield "a secret of the configuration", value


def _secret_in_text(secret_name: str, where: str) -> ConfigError:
    return ConfigError(
        f"{secret_name} would be readable in {where}",
        hint="pass only the name of the variable that has the secret: --policy-api-key-env, or "
        "inherit_env of the cluster config",
    )

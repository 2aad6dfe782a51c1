"""How to verify a run's answers again: what names its environment on the command line."""

import shlex
from collections.abc import Collection, Sequence

from palestra.config import is_secret_name
from palestra.settings import COMMAND_SETTINGS

_NOT_OF_THE_VERIFIER = COMMAND_SETTINGS | {"head_server"}
_UNKNOWN = '"+config_paths=[…]"'


def verified_by(
    overrides: Sequence[str], secrets: Collection[str], environment: str | None = None
) -> str:
    """What follows `palestra reverify …`: the run's own overrides, as far as verifiers need them.

    Without secrets: this is printed and stored. `environment`: what the run evaluated.
    """
    named = [] if environment is None else ["--environment", environment]
    kept = [item for item in overrides if _is_kept(item, secrets)]
    return shlex.join([*named, *kept]) or _UNKNOWN


def _is_kept(override: str, secrets: Collection[str]) -> bool:
    path = override.lstrip("+~").partition("=")[0].split(".")
    if path[0] in _NOT_OF_THE_VERIFIER or any(map(is_secret_name, path)):
        return False
    return not any(secret in override for secret in secrets)

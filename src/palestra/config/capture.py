"""The settings of observability, which are top-level keys of the configuration.

observability_enabled: true
model_call_capture_dir: /an/absolute/folder
token_id_capture: {enabled: true}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from palestra.errors import ConfigError, KnownCause

OBSERVABILITY_ENABLED: Final = "observability_enabled"
MODEL_CALL_CAPTURE_DIR: Final = "model_call_capture_dir"
TOKEN_ID_CAPTURE: Final = "token_id_capture"  # noqa: S105  # the name of a setting

CAPTURE_KEYS: Final = frozenset({OBSERVABILITY_ENABLED, MODEL_CALL_CAPTURE_DIR, TOKEN_ID_CAPTURE})

_HINT: Final = f"+{OBSERVABILITY_ENABLED}=true +{MODEL_CALL_CAPTURE_DIR}=/path/of/a/folder"


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """What model servers record, in files of `folder`: calls, token ids, or both."""

    folder: Path
    calls: bool
    token_ids: bool


def capture_settings(tree: Mapping[Any, Any]) -> CaptureSettings | None:
    """Return the settings of a configuration; None when nothing is to be recorded.

    Raises ConfigError: a setting has another type, or the folder is missing or relative.
    """
    calls = _switch(tree.get(OBSERVABILITY_ENABLED), OBSERVABILITY_ENABLED)
    tokens = tree.get(TOKEN_ID_CAPTURE)
    if tokens is not None and not isinstance(tokens, Mapping):
        raise _wrong(f"{TOKEN_ID_CAPTURE} is {tokens!r}, not a group such as {{enabled: true}}")
    token_ids = _switch((tokens or {}).get("enabled"), f"{TOKEN_ID_CAPTURE}.enabled")
    folder = tree.get(MODEL_CALL_CAPTURE_DIR)
    if folder is not None and not isinstance(folder, str | Path):
        raise _wrong(f"{MODEL_CALL_CAPTURE_DIR} is {folder!r}, not a path")
    if folder and not Path(folder).is_absolute():
        raise _wrong(f"{MODEL_CALL_CAPTURE_DIR} is {str(folder)!r}, which is not an absolute path")
    if not calls and not token_ids:
        return None
    if not folder:
        enabled = OBSERVABILITY_ENABLED if calls else f"{TOKEN_ID_CAPTURE}.enabled"
        raise _wrong(f"{enabled} needs {MODEL_CALL_CAPTURE_DIR}, the folder for its files")
    return CaptureSettings(Path(folder), calls, token_ids)


def _switch(value: Any, name: str) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _wrong(f"{name} is {value!r}, not true or false")


def _wrong(message: str) -> ConfigError:
    return ConfigError(message, hint=_HINT, cause=KnownCause.BAD_VALUE)

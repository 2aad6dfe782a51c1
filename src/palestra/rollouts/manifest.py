"""The manifest: records the inputs of a run, so that the run cannot be continued with different
ones.

It contains only settings that rewards depend on; `semantics_of` selects them.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.errors import InputDataError, KnownCause
from palestra.rollouts.journal import write_json
from palestra.schema import JsonDict, JsonObject

OPERATIONAL = frozenset(
    {
        "api_key",
        "base_url",
        "default_headers",
        "openai_api_key",
        "openai_base_url",
        "request_timeout_s",
        "slots",
        "start_timeout_s",
        "threads",
        "verbose",
    }
)
"""Settings that may differ when a run is continued, because rewards do not depend on them."""


def semantics_of(
    instances: Mapping[str, tuple[str, str, JsonObject]], extra: JsonObject
) -> JsonDict:
    """Return the part of a configuration that the manifest stores.

    `instances`: name -> (server type, implementation, its own settings). `extra`: settings of the
    command that affect the rows.
    """
    servers = {
        name: {
            "type": kind,
            "implementation": implementation,
            "settings": {key: value for key, value in settings.items() if key not in OPERATIONAL},
        }
        for name, (kind, implementation, settings) in sorted(instances.items())
    }
    semantics = {"servers": servers, **extra}
    # As JSON gives it back, so that a later run compares like with like.
    read_back: JsonDict = orjson.loads(
        orjson.dumps(semantics, default=str, option=orjson.OPT_NON_STR_KEYS)
    )
    return read_back


FORMAT = 1
_TYPES = {
    "input_digest": str,
    "semantics": dict,
    "requested": int,
    "tasks": int,
    "palestra_version": str,
}
_ABSENT: Any = object()
_DIGEST: Final = re.compile("[0-9a-f]{64}")
"""A SHA-256 in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class ShardOf:
    """The position of a shard: shard `index` of `of`, and the rollouts and tasks requested by the
    whole run.
    """

    index: int
    of: int
    requested: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The recorded inputs of a run or shard. `semantics`: the settings that rewards depend on
    (rows, model, sampling, verifier settings, prompt).

    `requested` and `tasks`: the counts of the shard for a shard's manifest, else of the whole run.
    """

    input_digest: str
    semantics: JsonObject
    requested: int
    tasks: int
    version: str
    format: int = FORMAT
    shard: ShardOf | None = None
    inputs: tuple[str, ...] = field(default=(), compare=False)
    """The paths of the task files that the rows come from."""
    accounted: int = field(default=0, compare=False)
    """The number of ended rollouts when the manifest was last written; all of them once the run is
    complete."""
    command: str = field(default="", compare=False)
    """The command or the Python call that started the run, without secrets; empty when unknown."""
    started_at: float = field(default=0.0, compare=False)
    """When the run was started, in seconds since 1970; 0 when unknown."""
    code: str = field(default="", compare=False)
    """The commit of the code that was packaged for the run; empty when unknown."""
    ended_at: float = field(default=0.0, compare=False)
    """When the last collection of the run ended, in seconds since 1970; 0 when none has ended."""

    @property
    def digest(self) -> str:
        """The digest of everything that rewards depend on; the same for all shards of a run."""
        identity = orjson.dumps([self.input_digest, self.semantics], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(identity).hexdigest()

    def write(self, path: Path, *, ended_counts: Mapping[str, int] | None = None) -> None:
        """Write the manifest atomically. `ended_counts`: the number of ended rollouts by outcome."""
        write_json(
            path,
            {
                "format": self.format,
                "digest": self.digest,
                "input_digest": self.input_digest,
                # As seen from here: a run that is moved as a whole still finds them.
                "inputs": [os.path.relpath(name, path.parent) for name in self.inputs],
                "semantics": self.semantics,
                "requested": self.requested,
                "tasks": self.tasks,
                "palestra_version": self.version,
                "shard": None if self.shard is None else asdict(self.shard),
                "ended": dict(ended_counts or {}),
                **self._circumstances(),
            },
        )

    def _circumstances(self) -> JsonDict:
        """Return the known fields that do not identify the run: by whom and when it was run."""
        values = {
            "command": self.command,
            "code": self.code,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
        }
        return {name: value for name, value in values.items() if value}


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raises InputDataError: it is missing, broken, or written by a newer version."""
    try:
        fields = orjson.loads(path.read_bytes())
        if fields["format"] > FORMAT:
            raise InputDataError(
                f"{path} was written by a newer Palestra (format {fields['format']}, "
                f"this one reads up to {FORMAT})",
                hint="continue this run with the version that started it, or --overwrite",
                cause=KnownCause.BROKEN_MANIFEST,
            )
        shard = fields.get("shard")
        wrong = [name for name, kind in _TYPES.items() if not isinstance(fields[name], kind)]
        if wrong:
            raise TypeError(f"{', '.join(wrong)} has the wrong type")
        return Manifest(
            input_digest=fields["input_digest"],
            semantics=fields["semantics"],
            requested=fields["requested"],
            tasks=fields["tasks"],
            version=fields["palestra_version"],
            format=fields["format"],
            shard=ShardOf(**shard) if shard else None,
            inputs=tuple(
                os.path.normpath(path.parent.absolute() / str(name))
                for name in fields.get("inputs") or ()
            ),
            accounted=sum(dict(fields.get("ended") or {}).values()),
            command=str(fields.get("command") or ""),
            code=str(fields.get("code") or ""),
            started_at=float(fields.get("started_at") or 0),
            ended_at=float(fields.get("ended_at") or 0),
        )
    except OSError as error:
        raise InputDataError(
            f"{path}: {error.strerror}; without it the run cannot be continued safely",
            hint="start again with --overwrite",
            cause=KnownCause.BROKEN_MANIFEST,
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputDataError(
            f"{path} is not a manifest ({error!r})",
            hint="start again with --overwrite",
            cause=KnownCause.BROKEN_MANIFEST,
        ) from error


def differences(old: Any, new: Any, at: str = "") -> list[str]:
    """Return the differences between two values, one line per leaf: `path: old -> new`.

    Of two digests, only that they differ: their digits help nobody.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        changes: list[str] = []
        for key in sorted({*old, *new}):
            below = f"{at}.{key}" if at else str(key)
            changes += differences(old.get(key, _ABSENT), new.get(key, _ABSENT), below)
        return changes
    if old == new:
        return []
    if _is_digest(old) and _is_digest(new):
        return [f"{at}: it has changed since"]
    return [f"{at}: {_value_text(old)} -> {_value_text(new)}"]


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _value_text(value: Any) -> str:
    return "absent" if value is _ABSENT else repr(value)

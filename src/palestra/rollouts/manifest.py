"""The manifest: what a run was made from, so that it is never continued as something else.

Of the settings it has those that a reward depends on; `semantics_of` tells them apart.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

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
"""Settings that may change between the start of a run and its continuation."""


def semantics_of(
    instances: Mapping[str, tuple[str, str, JsonObject]], extra: JsonObject
) -> JsonDict:
    """What the manifest remembers of a configuration.

    `instances`: name -> (server type, implementation, its own settings). `extra`: settings of
    the command that shape the rows.
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


@dataclass(frozen=True, slots=True)
class ShardOf:
    """Which share of which whole: shard `index` of `of`, and what the whole run asks for."""

    index: int
    of: int
    requested: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """`semantics`: what rewards depend on (rows, model, sampling, verifier settings, prompt).

    `requested` and `tasks` are those of the files beside it: a shard's own, or the run's.
    """

    input_digest: str
    semantics: JsonObject
    requested: int
    tasks: int
    version: str
    format: int = FORMAT
    shard: ShardOf | None = None
    inputs: tuple[str, ...] = field(default=(), compare=False)
    """The files of tasks that the rows are from, for whoever looks for them later."""
    accounted: int = field(default=0, compare=False)
    """Rollouts in the counts that the run left, all of them once it has come to its end."""

    @property
    def digest(self) -> str:
        """One fingerprint of everything that rewards depend on; the same for all shards."""
        identity = orjson.dumps([self.input_digest, self.semantics], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(identity).hexdigest()

    def write(self, path: Path, *, ended: Mapping[str, int] | None = None) -> None:
        """Write it whole, with the counts so far."""
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
                "ended": dict(ended or {}),
            },
        )


def read_manifest(path: Path) -> Manifest:
    """Read one. Raises InputDataError when it is missing, broken, or of a newer version."""
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
            raise TypeError(f"{', '.join(wrong)} of the wrong type")
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
    """What differs between two values, one line per leaf: `path: old -> new`."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        changes: list[str] = []
        for key in sorted({*old, *new}):
            below = f"{at}.{key}" if at else str(key)
            changes += differences(old.get(key, _ABSENT), new.get(key, _ABSENT), below)
        return changes
    return [] if old == new else [f"{at}: {_shown(old)} -> {_shown(new)}"]


def _shown(value: Any) -> str:
    return "absent" if value is _ABSENT else repr(value)

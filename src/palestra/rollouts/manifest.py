"""The manifest: records the inputs of a run, so that the run cannot be continued with different
ones.

It contains only settings that rewards depend on; `semantics_of` selects them.
"""

import hashlib
import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.config import ENVIRONMENT_FILE, ServerType
from palestra.errors import InputDataError, KnownCause
from palestra.rollouts.journal import write_json
from palestra.rollouts.lineage import SelectedFrom
from palestra.schema import (
    REVERIFY_COMMAND,
    JsonDict,
    JsonObject,
    ReverifyCommand,
    RunPaths,
    with_compressed,
)

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
_DIGEST: Final = re.compile("[0-9a-f]{64}|sha256:[0-9a-f]{12}")
"""The SHA-256 of code in hexadecimal digits, or the digest of a setting that may be secret."""
LONGEST_VALUE: Final = 80
"""The most characters of a value in a line about a difference."""


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
    selected_from: tuple[SelectedFrom, ...] = field(default=(), compare=False)
    """The runs by whose rewards the tasks were chosen."""
    limit: int | None = field(default=None, compare=False)
    """How many input rows were read at most; None: all of them, or unknown."""
    knows_limit: bool = field(default=True, compare=False)
    """Whether `limit` is known: manifests of the first versions do not have it."""
    reverify: ReverifyCommand | None = field(default=None, compare=False)
    """The command that verifies the run's responses again; None when it is not recorded."""

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
        """Return the known fields that do not identify the run, such as when it was run."""
        values = {
            "command": self.command,
            "code": self.code,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "selected_from": [asdict(run) for run in self.selected_from],
            REVERIFY_COMMAND: self.reverify and self.reverify.as_json(),
        }
        limit = {"limit": self.limit} if self.knows_limit else {}
        return {**{name: value for name, value in values.items() if value}, **limit}


def lost_rows(output: Path, manifest: Manifest) -> str:
    """Return a clause when the run at `output` had rollouts, and neither its scored rows nor its
    failures are there; empty otherwise.
    """
    files = (output, RunPaths(output).failures)
    if not manifest.accounted or any(with_compressed(path) is not None for path in files):
        return ""
    return (
        f"{output.name} is missing, with all rollouts that had ended ({manifest.accounted}): put it "
        "back, or --resume runs them again"
    )


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
            selected_from=tuple(map(SelectedFrom.of, fields.get("selected_from") or ())),
            limit=None if fields.get("limit") is None else int(fields["limit"]),
            knows_limit="limit" in fields,
            reverify=ReverifyCommand.of(fields.get(REVERIFY_COMMAND)),
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
    if _is_digest(old) or _is_digest(new):
        if old is _ABSENT:
            return [f"{at}: it is new"]
        if new is _ABSENT:
            return [f"{at}: it is gone"]
        if _is_digest(old) and _is_digest(new):
            return [f"{at}: it has changed since"]
    return [f"{at}: {_value_pair(old, new)}"]


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _value_pair(old: Any, new: Any) -> str:
    """Return two different values in one line; of long ones, the part where they begin to differ."""
    texts = [_value_text(old), _value_text(new)]
    same = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), 0)
    begin = max(0, same - LONGEST_VALUE // 2) if max(map(len, texts)) > LONGEST_VALUE else 0
    return " -> ".join(_cut(text, begin) for text in texts)


def _cut(text: str, begin: int) -> str:
    if begin:
        text = f"…{text[begin:]}"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _value_text(value: Any) -> str:
    """Return a value as YAML has it."""
    if value is _ABSENT:
        return "absent"
    if isinstance(value, str):
        return repr(value)
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def semantic_differences(old: JsonObject, new: JsonObject, agents: Collection[str]) -> list[str]:
    """Return the differences that the rewards of these agents' rows may depend on, one line each.

    Only servers that one fleet has and the other does not may be left out: those that the agents do
    not reach. Another setting of a server always counts, because code can call a server that no
    setting names. Every server counts when the new fleet has none of these agents.
    """
    old, new = without_folders(old), without_folders(new)
    reached = reached_servers(new, agents)
    if not reached:
        return differences(old, new)
    reached |= reached_servers(old, agents)
    came_or_went = set(servers_in(old)) ^ set(servers_in(new))
    left_out = came_or_went - reached
    return differences(_without(old, left_out), _without(new, left_out))


def without_folders(semantics: JsonObject) -> JsonObject:
    """Return the semantics without the folders of environments in one file: their code counts, which
    has digests, and a project may be moved or named in another way.
    """
    codes, servers = semantics.get("code"), servers_in(semantics)
    own_names = codes.keys() & servers.keys() if isinstance(codes, Mapping) else ()
    shortened = {
        name: {**server, "settings": {**settings, "path": Path(str(settings["path"])).name}}
        for name in own_names
        if (server := servers[name]).get("implementation") == ENVIRONMENT_FILE
        and "path" in (settings := server.get("settings") or {})
    }
    return {**semantics, "servers": {**servers, **shortened}} if shortened else semantics


def servers_in(semantics: JsonObject) -> JsonObject:
    """Return what the semantics of a run have of each server, by its name."""
    servers = semantics.get("servers")
    return servers if isinstance(servers, Mapping) else {}


def verifier_servers(semantics: JsonObject) -> JsonDict:
    """Return what the semantics of a run have of the servers that its rewards depend on, by name: the
    resources servers, and those that they name, such as a judge.
    """
    servers = servers_in(without_folders(semantics))
    verifiers = [name for name in servers if servers[name].get("type") == ServerType.RESOURCES]
    return {name: servers[name] for name in sorted(reached_servers(semantics, verifiers))}


def reached_servers(semantics: JsonObject, agents: Collection[str]) -> set[str]:
    """Return these agents, or servers, and the servers that they name in their settings, directly or
    through others.
    """
    servers = servers_in(semantics)
    reached: set[str] = set()
    ahead = list(agents)
    while ahead:
        name = ahead.pop()
        server = servers.get(name)
        if name in reached or server is None:
            continue
        reached.add(name)
        ahead += _texts_in(server.get("settings"))
    return reached


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a value, keys included; the names of servers refer to them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        parts = itertools.chain(value, value.values()) if isinstance(value, Mapping) else value
        for part in parts:
            yield from _texts_in(part)


def _without(semantics: JsonObject, names: Collection[str]) -> JsonObject:
    """Return the semantics without the servers of these names."""
    by_server = {
        part: {name: value for name, value in semantics[part].items() if name not in names}
        for part in ("servers", "code")
        if isinstance(semantics.get(part), Mapping)
    }
    return {**semantics, **by_server}

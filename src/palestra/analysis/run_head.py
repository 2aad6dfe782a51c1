"""Says what a run is: its environment, its model, when it ran, and the settings that matter. All of
it is read from the manifest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from palestra.config import ENVIRONMENT_FILE, ServerType
from palestra.errors import InputDataError
from palestra.rollouts import Manifest, manifest_of_verifiers, read_manifest, verifier_servers
from palestra.schema import JsonDict, JsonObject, RunPaths, read_jsonl, with_compressed

_MODEL_SETTINGS: Final = ("model", "openai_model", "model_name", "deployment")
_DIGEST_CHARACTERS: Final = 12
_MOST_FILES: Final = 3


@dataclass(frozen=True, slots=True)
class RunHead:
    """What a run is. Texts are empty, and times None, when they are unknown."""

    environment: str
    """The environments, separated by commas."""
    model: str
    """The name of the policy."""
    judge: str
    started_at: datetime | None
    ended_at: datetime | None
    version: str
    """The version of Palestra that ran it."""
    command: str
    """The command or the Python call that started it."""
    settings: Mapping[str, Any]
    """Sampling parameters, repeats, prompt template and the settings of the environment."""
    verifier: str
    """The digest of the environment's code, with the names of its files where they are known; empty
    for code that ships with Palestra."""
    selected_from: str
    """The runs by whose rewards the tasks were chosen; empty without one."""

    @classmethod
    def of(cls, manifest: Manifest) -> "RunHead":
        """Return the head of the run with this manifest."""
        return cls(
            environment=", ".join(environments_of(manifest)),
            model=model_of(manifest),
            judge=_judge_of(manifest),
            started_at=_time(manifest.started_at),
            ended_at=_time(manifest.ended_at),
            version=manifest.version,
            command=manifest.command,
            settings=dict(_settings_that_matter(manifest)),
            verifier=", ".join(map(_digest_text, _verifiers_code(manifest).values())),
            selected_from=", ".join(map(str, manifest.selected_from)),
        )

    @property
    def date(self) -> str:
        """When the run was started, in UTC, to the minute; empty when unknown."""
        return "" if self.started_at is None else f"{self.started_at:%Y-%m-%d %H:%M}"

    @property
    def title(self) -> str:
        """`environment · model · date`, of what is known."""
        return " · ".join(filter(None, (self.environment, self.model, self.date)))


def run_head(rollouts: Sequence[Path]) -> RunHead:
    """Return the head of a run from the manifest beside its rollouts. For re-verified rollouts it is
    what the re-verification records, and the model that the first row names. Without a manifest,
    only the time is known: that at which the inputs were written.
    """
    paths = RunPaths(rollouts[0])
    manifest = _manifest_of(paths)
    head = RunHead.of(manifest)
    if not head.model and head.environment:
        head = replace(head, model=_model_of_rows(paths.output))
    if head.started_at is not None:
        return head
    inputs = with_compressed(paths.materialized_inputs)
    if not manifest.version or inputs is None:
        return head
    return replace(head, started_at=_time(inputs.stat().st_mtime))


def _manifest_of(paths: RunPaths) -> Manifest:
    """Return the manifest of a run, else what its re-verification records; empty without either."""
    try:
        return read_manifest(paths.manifest)
    except InputDataError:
        return manifest_of_verifiers(paths.output) or Manifest("", {}, 0, 0, "")


def verifiers_of(rollouts: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return what a run's rewards depend on, by the names of its servers: the digests of the
    environments' code, without code that ships with Palestra; and the environments and the servers
    that they name, with their settings.
    """
    manifest = _manifest_of(RunPaths(rollouts))
    return _verifiers_code(manifest), verifier_servers(manifest.semantics)


def _verifiers_code(manifest: Manifest) -> Mapping[str, Any]:
    verifiers = resources_servers(manifest)
    codes = _object(manifest.semantics.get("code"))
    return {name: digests for name, digests in codes.items() if name in verifiers}


def _model_of_rows(rollouts: Path) -> str:
    """Return the model that the first row names; empty without one."""
    try:
        line = next(read_jsonl(rollouts), None)
    except (InputDataError, OSError):
        return ""
    return "" if line is None else str(_object(line.row.get("response")).get("model") or "")


def environments_of(manifest: Manifest) -> list[str]:
    """Return the names of a run's environments: of a file, or of the folder of a resources server."""
    servers = environment_servers(manifest)
    return list(dict.fromkeys(_environment_name(*server) for server in servers.items()))


def environment_servers(manifest: Manifest) -> dict[str, JsonDict]:
    """Return the resources servers that a run's agents refer to, by name. Where no agent is recorded,
    as of a re-verification, all.
    """
    servers = _servers(manifest)
    if not any(server.get("type") == ServerType.AGENT for server in servers.values()):
        return resources_servers(manifest)
    agent_name = manifest.semantics.get("agent_name")
    agents = [servers[agent_name]] if agent_name in servers else list(servers.values())
    names = [_reference(agent, "resources_server") for agent in agents]
    return {name: servers[name] for name in names if name in servers}


def resources_servers(manifest: Manifest) -> dict[str, JsonDict]:
    """Return all resources servers of a run, by name."""
    servers = _servers(manifest).items()
    return {name: server for name, server in servers if server.get("type") == ServerType.RESOURCES}


def model_of(manifest: Manifest) -> str:
    """Return the name of a run's policy: as its endpoint knows it, else of its model server."""
    servers = _servers(manifest)
    names = dict.fromkeys(_reference(server, "model_server") for server in servers.values())
    models = [_model_name(servers[name]) for name in names if name in servers]
    return ", ".join(dict.fromkeys(models))


def _judge_of(manifest: Manifest) -> str:
    servers = _servers(manifest)
    names = [
        str(value.get("name"))
        for server in resources_servers(manifest).values()
        for key, value in _object(server.get("settings")).items()
        if "judge" in key and isinstance(value, Mapping) and value.get("type") == ServerType.MODEL
    ]
    return ", ".join(dict.fromkeys(_model_name(servers[name]) for name in names if name in servers))


def _settings_that_matter(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    semantics = manifest.semantics
    yield from _object(semantics.get("responses_create_params")).items()
    if "num_repeats" in semantics:
        yield "repeats", semantics["num_repeats"]
    if semantics.get("num_repeats_add_seed"):
        yield "seed", "the rollout's index"
    for name in ("prompt", "skills"):
        if semantics.get(name):
            yield name, semantics[name]
    for server in resources_servers(manifest).values():
        yield from _object(_object(server.get("settings")).get("settings")).items()


def _servers(manifest: Manifest) -> dict[str, JsonDict]:
    return dict(_object(manifest.semantics.get("servers")))


def _object(value: Any) -> JsonObject:
    """Return `value` when it is an object; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _digest_text(digests: Any) -> str:
    """Return the short digest of a server's code. `digests`: one, or one for each file."""
    if not isinstance(digests, Mapping):
        return str(digests)[:_DIGEST_CHARACTERS]
    texts = [f"{file} {str(digest)[:_DIGEST_CHARACTERS]}" for file, digest in digests.items()]
    further = len(texts) - _MOST_FILES
    return ", ".join(texts[:_MOST_FILES]) + (f" and {further} more" if further > 0 else "")


def _reference(server: JsonObject, setting: str) -> str:
    """Return the name of the server that a setting refers to; empty without one."""
    return str(_object(_object(server.get("settings")).get(setting)).get("name") or "")


def _environment_name(name: str, server: JsonObject) -> str:
    implementation = str(server.get("implementation") or name)
    if implementation == ENVIRONMENT_FILE:
        return Path(str(_object(server.get("settings")).get("path") or name)).stem
    return implementation


def _model_name(server: JsonObject) -> str:
    settings = _object(server.get("settings"))
    fallback = str(server.get("implementation") or "").removesuffix("_model")
    model_names = [str(settings[key]) for key in _MODEL_SETTINGS if settings.get(key)]
    return model_names[0] if model_names else fallback


def _time(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None

"""Where on the hub a dataset goes, by the names that its users find it by."""

from dataclasses import dataclass
from pathlib import PurePath

from palestra.config import ServerType, load_config, renamed
from palestra.datasets.hub.settings import HubUpload
from palestra.errors import ConfigError


@dataclass(frozen=True, slots=True)
class UploadTarget:
    """A repository, and the collection it is listed in."""

    repo_id: str
    dataset_name: str
    """As the repository's name ends, and as GitLab's registry may call it."""
    collection: str | None


def target_of(settings: HubUpload) -> UploadTarget:
    """`{organization}/{prefix}-{domain}-{name}`. Raises ConfigError without a domain."""
    server, domain = _resources_server(settings.resource_config_path)
    name = settings.dataset_name or server
    collection = None
    if settings.hf_collection_name is not None:
        slug = "-".join(settings.hf_collection_name.lower().split())
        collection = f"{settings.hf_organization}/{slug}-{settings.hf_collection_slug}"
    repo = f"{settings.hf_dataset_prefix}-{domain}-{name}"
    if not all(char.isalnum() or char in "-_." for char in repo):
        raise ConfigError(
            f"{repo!r} cannot be the name of a repository",
            hint="dataset_name takes letters, digits, -, _ and .",
        )
    return UploadTarget(f"{settings.hf_organization}/{repo}", name, collection)


def _resources_server(config_path: str) -> tuple[str, str]:
    """Its folder's name, as the path has it, and its domain in lower case."""
    config = load_config(
        config_paths=[config_path], use_env_yaml=False, require_all=False, required=()
    )
    servers = config.instances_of(ServerType.RESOURCES)
    found = {(server.implementation, server.domain) for server in servers}
    if not found:
        raise ConfigError(
            f"resource_config_path: {config_path} has no resources server",
            hint="it is the config of the environment that the dataset is for",
        )
    if len(found) > 1:
        names = ", ".join(sorted(server.name for server in servers))
        raise ConfigError(f"resource_config_path: {config_path} has several servers: {names}")
    implementation, domain = found.pop()
    if not domain:
        raise ConfigError(
            f"{config_path}: the resources server {implementation} has no domain, which the "
            "repository's name holds",
            hint=f"add domain: math (or what it is) to {implementation}",
        )
    newer = renamed(config_path)
    # Names on the hub stay what their users know them by.
    name = PurePath(newer.old).name if newer else implementation
    return name, domain.lower()

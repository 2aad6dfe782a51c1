"""Checks before an upload, without the hub: whether the file is a train split, and the target's
name.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from palestra.config import ServerType, load_config, renamed
from palestra.datasets.problems import LineRanges
from palestra.errors import ConfigError, InputDataError
from palestra.schema import CREATE_PARAMS, EXPECTED_ANSWER, read_jsonl
from palestra.settings import HubUpload

WANTED: Final = ("reward_profiles", EXPECTED_ANSWER)
"""The fields that rows of a train file should have, but need not."""


def check_rows(path: Path) -> tuple[str, ...]:
    """Check every row of a train split. Return warnings about recommended fields that rows lack.

    Raises InputDataError that lists all rows without required fields.
    """
    wrong: defaultdict[str, LineRanges] = defaultdict(LineRanges)
    lacking: dict[str, int] = dict.fromkeys(WANTED, 0)
    count = 0
    for line in read_jsonl(path):
        count += 1
        if line.error:
            wrong["not a row"].add(line.number)
        elif not isinstance(line.row, Mapping):
            wrong["not an object"].add(line.number)
        else:
            if line.row.get(CREATE_PARAMS) is None:
                wrong[f"without {CREATE_PARAMS}"].add(line.number)
            for name in WANTED:
                lacking[name] += name not in line.row
    if wrong:
        problems = "; ".join(f"{why}: rows {lines}" for why, lines in wrong.items())
        raise InputDataError(
            f"{path} is not a train split: {problems}",
            hint="nothing was uploaded; `palestra prepare` makes and checks such files, only the "
            "train split is checked",
        )
    return tuple(
        f"{path}: {missing:,} of {count:,} rows have no {name}"
        for name, missing in lacking.items()
        if missing
    )


@dataclass(frozen=True, slots=True)
class UploadTarget:
    """A repository, and the collection that lists it."""

    repo_id: str
    dataset_name: str
    """The last part of the repository's name; also the dataset's default name in GitLab's registry.
    """
    collection: str | None


def target_of(settings: HubUpload) -> UploadTarget:
    """Return the target repository, `{organization}/{prefix}-{domain}-{name}`. Raises ConfigError:
    the resources server has no domain.
    """
    server, domain = _resources_server(settings.resource_config_path)
    name = settings.dataset_name or server
    collection = None
    if settings.hf_collection_name is not None:
        slug = "-".join(settings.hf_collection_name.lower().split())
        collection = f"{settings.hf_organization}/{slug}-{settings.hf_collection_slug}"
    repo = f"{settings.hf_dataset_prefix}-{domain}-{name}"
    if not all(char.isalnum() or char in "-_." for char in repo):
        raise ConfigError(
            f"{repo!r} cannot be the name of a repository, which takes letters, digits, -, _ and .",
            hint="give another --dataset-name",
        )
    return UploadTarget(f"{settings.hf_organization}/{repo}", name, collection)


def _resources_server(config_path: str) -> tuple[str, str]:
    """Return the resources server's folder name (as in the path) and its domain in lower case."""
    config = load_config(
        config_paths=[config_path], use_env_yaml=False, require_all=False, required=()
    )
    servers = config.instances_of(ServerType.RESOURCES)
    kinds = {(server.implementation, server.domain) for server in servers}
    if not kinds:
        raise ConfigError(
            f"{config_path} has no resources server",
            hint="pass the config of the environment that the dataset is for, with --resource-config",
        )
    if len(kinds) > 1:
        names = ", ".join(sorted(server.name for server in servers))
        raise ConfigError(
            f"{config_path} has several servers: {names}",
            hint="pass the config of one environment with --resource-config",
        )
    implementation, domain = kinds.pop()
    if not domain:
        raise ConfigError(
            f"{config_path}: the resources server {implementation} has no domain, which is part "
            "of the repository's name",
            hint=f"add domain: math (or what it is) to {implementation}",
        )
    newer = renamed(config_path)
    # Names on the hub stay what their users know them by.
    name = PurePath(newer.old).name if newer else implementation
    return name, domain.lower()

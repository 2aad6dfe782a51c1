"""Datasets go up to the registry, come down from it, and are taken away."""

from dataclasses import dataclass
from pathlib import Path

from palestra.datasets.registry.access import Registry
from palestra.datasets.registry.artifacts import Artifacts
from palestra.datasets.registry.catalogue import Catalogue
from palestra.datasets.transfer import Outgoing, UploadProgress, free_destination
from palestra.errors import ConfigError, RunFailed
from palestra.settings import GitlabDownload, GitlabUpload


@dataclass(frozen=True, slots=True)
class Stored:
    """What is in the registry now, its bytes compared with the file's."""

    name: str
    version: str
    artifact: str
    unchanged: bool
    """The registry had these bytes before."""


def upload_to_registry(
    file: Outgoing, settings: GitlabUpload, registry: Registry, progress: UploadProgress
) -> Stored:
    """Put a file into a version of a dataset, and read it back.

    Raises ConfigError when the version holds other bytes: versions do not change.
    """
    name, version, artifact = settings.dataset_name, settings.version, file.path.name
    catalogue = Catalogue(registry)
    found = catalogue.find(name, version)
    if found is None:
        found = catalogue.create(name, version, artifact, file.sha256)
    artifacts = Artifacts(registry, found, progress)
    there = artifacts.sha256_of(artifact)
    if there == file.sha256:
        return Stored(name, version, artifact, unchanged=True)
    # A file without one is what an upload that was stopped leaves of a version.
    if there is not None and found.sha256_of(artifact) != file.sha256:
        raise ConfigError(
            f"version {version} of {name!r} has a file {artifact} with other bytes",
            hint="nothing was uploaded; versions do not change: choose another",
        )
    artifacts.put(file.path, file.size_bytes)
    if (there := artifacts.sha256_of(artifact)) != file.sha256:
        raise RunFailed(
            f"{artifact} of {name!r} {version}: the registry's file has the sha256 {there}, and "
            f"ours {file.sha256}",
            hint="upload it again; do not trust what is there",
        )
    return Stored(name, version, artifact, unchanged=False)


def download_from_registry(
    settings: GitlabDownload, registry: Registry, progress: UploadProgress
) -> bool:
    """Fetch a file of a version; whether there was a digest to hold it to."""
    destination = free_destination(Path(settings.output_fpath))
    catalogue = Catalogue(registry)
    found = catalogue.find(settings.dataset_name, settings.version)
    if found is None:
        catalogue.require(settings.dataset_name)
        versions = ", ".join(catalogue.versions_of(settings.dataset_name)) or "none"
        raise ConfigError(
            f"dataset {settings.dataset_name!r} has no version {settings.version}",
            hint=f"known: {versions}",
        )
    return Artifacts(registry, found, progress).fetch(settings.artifact_fpath, destination)

"""Upload, download and compare the files of a dataset's version."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from palestra.datasets.registry.access import NoFile, Registry, RegistryRefused
from palestra.datasets.registry.catalogue import DatasetVersion
from palestra.datasets.transfer.files import Arriving, Digest, arriving
from palestra.datasets.transfer.outgoing import CountedReader, UploadProgress
from palestra.errors import ConfigError

if TYPE_CHECKING:
    from requests import Response
from dataclasses import dataclass

from palestra.datasets.registry.catalogue import Catalogue
from palestra.datasets.transfer.files import free_destination
from palestra.datasets.transfer.outgoing import Outgoing
from palestra.errors import RunFailed
from palestra.settings import GitlabDownload, GitlabUpload

CHUNK_BYTES: Final = 1 << 16
"""The size of a download chunk. When a response breaks off, fewer bytes than this are lost."""


class Artifacts:
    """The files of one dataset version."""

    def __init__(
        self, registry: Registry, version: DatasetVersion, progress: UploadProgress
    ) -> None:
        self._registry = registry
        self._version = version
        self._progress = progress
        self._base = _address_of(version.files_uri, registry.address.uri)

    def put(self, path: Path, size_bytes: int) -> None:
        """Upload a file under its own name."""
        what = f"{path.name} to {self._version.name!r} {self._version.version}"
        self._progress.start(path.name, size_bytes, 0)
        try:
            self._registry.ask(what, lambda: self._send(path))
        finally:
            self._progress.end()

    def sha256_of(self, name: str) -> str | None:
        """Return the sha256 of the file as the registry serves it; None when the registry has no
        such file.
        """
        what = f"{name} of {self._version.name!r} {self._version.version}"
        return self._registry.ask(what, lambda: self._digest(name))

    def fetch(self, name: str, destination: Path) -> bool:
        """Download a file to `destination`, completely or not at all. Return whether its sha256 was
        known and therefore checked.
        """
        what = f"{name} of {self._version.name!r} {self._version.version}"
        sha256 = self._version.sha256_of(name)
        size = self._registry.ask(what, lambda: self._size(name))
        key = Digest(sha256) if sha256 else Digest(f"{self._base}/{name} {size}")
        with arriving(destination, key, size) as part:
            if not sha256:
                part.start_afresh()  # nothing would tell that the rest is of other bytes
            self._progress.start(name, size, part.here_bytes)
            try:
                self._registry.ask(
                    what, lambda: self._receive(name, part), moved=lambda: part.here_bytes
                )
            finally:
                self._progress.end()
            part.put_in_place()
        return sha256 is not None

    def _url(self, name: str) -> str:
        return f"{self._base}/{quote(name)}"

    def _send(self, path: Path) -> None:
        with CountedReader(path, self._progress) as body:
            answer = self._registry.send(
                "PUT",
                self._url(path.name),
                data=body,
                extra_headers={"Content-Type": "application/octet-stream"},
            )
        _raise_for(answer)

    def _size(self, name: str) -> int | None:
        """Return the file's size in bytes, or None when unknown. It requests one byte, because not
        every registry supports HEAD.
        """
        options = {"stream": True, "extra_headers": _asking("bytes=0-0")}
        with closing(self._registry.send("GET", self._url(name), **options)) as answer:
            if answer.status_code == 416:
                return 0
            _raise_for(answer)
            _raise_for_a_page(answer, name)
            total = answer.headers.get("content-range", "").rpartition("/")[2]
            if answer.status_code != 206:
                total = answer.headers.get("content-length", "")
            return int(total) if total.isdecimal() else None

    def _digest(self, name: str) -> str | None:
        digest = hashlib.sha256()
        options = {"stream": True, "extra_headers": _asking(None)}
        with closing(self._registry.send("GET", self._url(name), **options)) as answer:
            if answer.status_code == 404:
                return None
            _raise_for(answer)
            _raise_for_a_page(answer, name)
            for chunk in _chunks(answer):
                digest.update(chunk)
        return digest.hexdigest()

    def _receive(self, name: str, part: Arriving) -> None:
        """Download the bytes that are still missing from `part`."""
        if part.total_bytes is None:
            part.start_afresh()  # nobody could tell where it ends
        here_bytes = part.here_bytes
        if here_bytes == part.total_bytes:
            return
        headers = _asking(f"bytes={here_bytes}-" if here_bytes else None)
        options = {"stream": True, "extra_headers": headers}
        with closing(self._registry.send("GET", self._url(name), **options)) as answer:
            _raise_for(answer)
            _raise_for_a_page(answer, name)
            if here_bytes and answer.status_code != 206:
                part.start_afresh()
                self._progress.advance(-here_bytes)
            part.append(_chunks(answer), self._progress.advance)
        if part.total_bytes is not None and part.here_bytes < part.total_bytes:
            raise ConnectionError(
                f"the answer ended after {part.here_bytes:,} of {part.total_bytes:,} bytes"
            )


def _asking(span: str | None) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    return {**headers, "Range": span} if span else headers


def _chunks(answer: "Response") -> Iterator[bytes]:
    yield from answer.iter_content(CHUNK_BYTES)


def _address_of(files_uri: str, tracking_uri: str) -> str:
    """Return the HTTP address of a version's files. Raises ConfigError: the files are not served
    over HTTP.
    """
    from mlflow.store.artifact.mlflow_artifacts_repo import MlflowArtifactsRepository

    scheme = urlsplit(files_uri).scheme
    if scheme == "mlflow-artifacts":
        return str(MlflowArtifactsRepository.resolve_uri(files_uri, tracking_uri))
    if scheme in {"http", "https"}:
        return files_uri.rstrip("/")
    raise ConfigError(
        f"the registry stores its files at {scheme or 'a path of its own'}:, which this machine "
        "cannot reach",
        hint="a registry that serves its files itself is needed: GitLab's, or mlflow server with "
        "--artifacts-destination",
    )


def _raise_for(answer: "Response") -> None:
    if answer.status_code < 400:
        return
    retry_after = answer.headers.get("retry-after", "")
    server_words = ""
    if "html" not in answer.headers.get("content-type", ""):
        server_words = answer.raw.read(2000, decode_content=True).decode("utf-8", "replace")
    after = float(retry_after) if retry_after.isdecimal() else None
    raise RegistryRefused(answer.status_code, server_words, after)


def _raise_for_a_page(answer: "Response", name: str) -> None:
    """Raise NoFile: the response is a web page, such as a login page with status 200, instead of
    the file.
    """
    is_page = "html" in answer.headers.get("content-type", "")
    if is_page and PurePosixPath(name).suffix not in {".html", ".htm"}:
        raise NoFile("the registry answered with a web page instead of the file")


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of an upload, after the registry's bytes matched the file's."""

    name: str
    version: str
    artifact: str
    unchanged: bool
    """Whether the registry already had these bytes."""


def upload_to_registry(
    file: Outgoing, settings: GitlabUpload, registry: Registry, progress: UploadProgress
) -> Stored:
    """Upload a file to a dataset version and verify it.

    Raises ConfigError: the version already has other bytes, and versions must not change.
    """
    name, version, artifact = settings.dataset_name, settings.version, file.path.name
    catalogue = Catalogue(registry)
    model_version = catalogue.find(name, version)
    if model_version is None:
        model_version = catalogue.create(name, version, artifact, file.sha256)
    artifacts = Artifacts(registry, model_version, progress)
    there_sha256 = artifacts.sha256_of(artifact)
    if there_sha256 == file.sha256:
        return Stored(name, version, artifact, unchanged=True)
    # A file without one is what an upload that was stopped leaves of a version.
    if there_sha256 is not None and model_version.sha256_of(artifact) != file.sha256:
        raise ConfigError(
            f"version {version} of {name!r} already has a file {artifact} with other content",
            hint="nothing was uploaded; a version cannot be changed: choose a new version",
        )
    artifacts.put(file.path, file.size_bytes)
    if (there_sha256 := artifacts.sha256_of(artifact)) != file.sha256:
        raise RunFailed(
            f"{artifact} of {name!r} {version}: the file in the registry has the sha256 "
            f"{there_sha256}, the local file {file.sha256}",
            hint="upload it again; do not use the file in the registry",
        )
    return Stored(name, version, artifact, unchanged=False)


def download_from_registry(
    settings: GitlabDownload, registry: Registry, progress: UploadProgress
) -> bool:
    """Download a file of a dataset version. Return whether a known sha256 was checked."""
    destination = free_destination(Path(settings.output_fpath))
    catalogue = Catalogue(registry)
    model_version = catalogue.find(settings.dataset_name, settings.version)
    if model_version is None:
        catalogue.require(settings.dataset_name)
        versions = ", ".join(catalogue.versions_of(settings.dataset_name)) or "none"
        raise ConfigError(
            f"dataset {settings.dataset_name!r} has no version {settings.version}",
            hint=f"known: {versions}",
        )
    return Artifacts(registry, model_version, progress).fetch(settings.artifact_fpath, destination)

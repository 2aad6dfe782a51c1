"""Downloads of a file or a split from the hub. Each file arrives completely or not at all.

The library's own download loses its progress when it is stopped, and checks no digests. Here the
bytes are written to a file beside the destination, so a later attempt, even in another process,
continues from there.
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfFileMetadata, get_hf_file_metadata, get_session, hf_hub_url
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

from palestra.datasets.hub.calls import Hub
from palestra.datasets.hub.references import HubReference
from palestra.datasets.hub.repositories import (
    NOTHING_READABLE,
    Split,
    chosen,
    only_split,
    splits_of,
)
from palestra.datasets.importing.sources import write_lines
from palestra.datasets.transfer.files import Arriving, Digest, arriving, free_destination, keeping
from palestra.datasets.transfer.outgoing import UploadProgress
from palestra.errors import ConfigError
from palestra.settings import HubDownload

DATASET: Final = "dataset"
_COMMIT: Final = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class _Repository:
    """A repository at one commit, so that all downloaded files belong to the same version."""

    repo_id: str
    commit: str
    hub: Hub
    progress: UploadProgress


def download(
    settings: HubDownload, hub: Hub, progress: UploadProgress, *, or_split: str | None = None
) -> list[Path]:
    """Download the file or the splits and return the paths of the written files. `or_split`: the
    split to use when the requested split does not exist.

    Raises ConfigError: the hub does not have the data. CredentialsRejected: the hub refuses access.
    InfraError: the hub stays unreachable, or the bytes do not match the announced size or digest.
    """
    if settings.artifact_fpath is not None:
        destination = free_destination(settings.destination(settings.artifact_fpath))
        repository, _ = _look_up(settings, hub, progress)
        _fetch(repository, settings.artifact_fpath, destination)
        return [destination]
    if settings.split is not None:
        free_destination(settings.destination(f"{settings.split}.jsonl"))
    elif settings.output_dirpath is not None:
        free_destination(Path(settings.output_dirpath) / "split.jsonl")
    repository, splits = _look_up(settings, hub, progress)
    if settings.split is not None:
        otherwise = or_split is not None and settings.split not in splits and or_split in splits
        name = or_split if or_split is not None and otherwise else settings.split
        split_names = [chosen(splits, name, settings.repo_id)]
    else:
        split_names = list(splits.values())
    if not split_names:
        raise ConfigError(f"{settings.repo_id} has no data", hint=NOTHING_READABLE)
    written = []
    for split in split_names:
        destination = free_destination(settings.destination(f"{split.name}.jsonl"))
        _fetch_split(repository, split, destination)
        written.append(destination)
    return written


def cached_split(reference: HubReference, cache: Path, hub: Hub, progress: UploadProgress) -> Path:
    """Return a JSONL file with the rows of a split. It is fetched once for each commit.

    Without a split in the reference, the dataset must have only one. Raises the errors of
    `download`.
    """
    repo_id = reference.repo_id
    folder = cache / repo_id.replace("/", "--")
    name = f"{reference.config or 'default'}-{reference.split or 'only'}.jsonl"
    pinned = folder / reference.revision / name
    if _COMMIT.fullmatch(reference.revision) and pinned.exists():
        return pinned
    info = hub.ask(
        repo_id, lambda: hub.api.dataset_info(repo_id, revision=reference.revision or None)
    )
    path = folder / str(info.sha) / name
    if path.exists():
        return path
    files = [sibling.rfilename for sibling in info.siblings or ()]
    card = info.card_data.to_dict() if info.card_data else {}
    splits = splits_of(files, card, reference.config)
    split = (
        chosen(splits, reference.split, repo_id) if reference.split else only_split(splits, repo_id)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    _fetch_split(_Repository(repo_id, str(info.sha), hub, progress), split, path)
    return path


def _look_up(
    settings: HubDownload, hub: Hub, progress: UploadProgress
) -> tuple[_Repository, dict[str, Split]]:
    info = hub.ask(
        settings.repo_id,
        lambda: hub.api.dataset_info(settings.repo_id, revision=settings.revision),
    )
    files = [sibling.rfilename for sibling in info.siblings or ()]
    card = info.card_data.to_dict() if info.card_data else {}
    repository = _Repository(settings.repo_id, str(info.sha), hub, progress)
    return repository, splits_of(files, card)


def _fetch_split(repository: _Repository, split: Split, destination: Path) -> None:
    """Download all files of a split and join them into one JSONL file."""
    if len(split.files) == 1 and split.files[0].endswith(".jsonl"):
        _fetch(repository, split.files[0], destination)
        return
    # Kept when something fails: what has arrived whole is not fetched again.
    parts = destination.with_name(f".{destination.name}.{repository.commit[:16]}.parts")
    of_the_split = Digest(f"{split.name} of {repository.repo_id} at {repository.commit}")
    with arriving(destination, of_the_split, None) as joined:
        fetched = []
        for number, file in enumerate(split.files):
            part = parts / f"{number:05d}-{Path(file).name}"
            if not part.exists():
                _fetch(repository, file, part)
            fetched.append(part)
        joined.start_afresh()
        with keeping(destination), joined.path.open("wb") as output:
            for part in fetched:
                _append(part, output)
        # Before the rename, after which another process may begin to fetch these parts.
        shutil.rmtree(parts, ignore_errors=True)
        joined.put_in_place()


def _append(part: Path, output: IO[bytes]) -> None:
    """Append the rows of a downloaded file to `output` as JSONL."""
    if part.suffix != ".jsonl":
        write_lines(part, output)
        return
    with part.open("rb") as rows:
        shutil.copyfileobj(rows, output)
    _end_line(part, output)


def _end_line(part: Path, output: IO[bytes]) -> None:
    with part.open("rb") as rows:
        if rows.seek(0, 2) and rows.seek(-1, 2) >= 0 and rows.read(1) != b"\n":
            output.write(b"\n")


def _fetch(repository: _Repository, file: str, destination: Path) -> None:
    """Download one file to `destination`."""
    hub = repository.hub
    url = hf_hub_url(
        repository.repo_id,
        file,
        repo_type=DATASET,
        revision=repository.commit,
        endpoint=hub.api.endpoint,
    )
    what = f"{file} of {repository.repo_id}"
    metadata = hub.ask(what, partial(_metadata, hub, url))
    digest = Digest(metadata.etag or "")
    with (
        arriving(destination, digest, metadata.size) as part,
        _file_listing(repository.progress, file, metadata, part),
    ):
        hub.ask(
            what,
            lambda: _receive(hub, url, metadata, part, repository.progress),
            moved=lambda: part.here_bytes,
        )
        part.put_in_place()


def _metadata(hub: Hub, url: str) -> HfFileMetadata:
    timeout = hub.patience.answer_timeout_s
    return get_hf_file_metadata(url, token=hub.token or False, timeout=timeout)


@contextlib.contextmanager
def _file_listing(
    progress: UploadProgress, name: str, metadata: HfFileMetadata, part: Arriving
) -> Iterator[None]:
    progress.start(name, metadata.size, part.here_bytes)
    try:
        yield
    finally:
        progress.end()


def _receive(
    hub: Hub, url: str, metadata: HfFileMetadata, part: Arriving, progress: UploadProgress
) -> None:
    """Download the bytes that are still missing from `part`."""
    if metadata.size is None:
        part.start_afresh()  # nobody could tell where it ends
    here_bytes = part.here_bytes
    if here_bytes == metadata.size:
        return
    headers = dict(build_hf_headers(token=hub.token or False))
    headers["Accept-Encoding"] = "identity"
    if urlsplit(metadata.location).netloc != urlsplit(url).netloc:
        headers.pop("authorization", None)  # a store of files knows nothing of our token
    if here_bytes:
        headers["Range"] = f"bytes={here_bytes}-"
    with get_session().stream("GET", metadata.location, headers=headers) as answer:
        if answer.is_error:
            answer.read()
        hf_raise_for_status(answer)
        if here_bytes and answer.status_code != 206:
            part.start_afresh()
            progress.advance(-here_bytes)
        part.append(answer.iter_raw(), progress.advance)
    if metadata.size is not None and part.here_bytes < metadata.size:
        raise httpx2.RemoteProtocolError(
            f"the answer ended after {part.here_bytes:,} of {metadata.size:,} bytes"
        )

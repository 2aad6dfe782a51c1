"""Download the missing file of a dataset from the source in its entry."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from palestra.config import ConfigTree, Redactor, find_secrets
from palestra.datasets.entries import DatasetEntry, DatasetType, DataSource
from palestra.datasets.hub import open_hub
from palestra.datasets.hub.references import HubReference
from palestra.datasets.registry.access import RegistryAddress, open_registry
from palestra.datasets.registry.artifacts import download_from_registry
from palestra.datasets.transfer.outgoing import Silent, UploadProgress
from palestra.datasets.transfer.patience import TransferPatience
from palestra.errors import ConfigError, PalestraError, mask_error
from palestra.settings import GitlabDownload, HubDownload

CREDENTIALS: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "MLFLOW_TRACKING_TOKEN")


OTHERWISE: Final[Mapping[DatasetType, str]] = {"benchmark": "test"}
"""Dataset type -> the split's usual name on the hub, where that name differs."""


def credentials_in(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the tokens for the hub and the registry: those in the environment, and the stored
    Hugging Face login.
    """
    return frozenset(environ[name] for name in CREDENTIALS if environ.get(name)) | _login()


def _login() -> frozenset[str]:
    """Return the token of the stored Hugging Face login; an empty set when huggingface_hub is not
    installed.
    """
    if find_spec("huggingface_hub") is None:
        return frozenset()
    from huggingface_hub import get_token

    token = get_token()
    return frozenset({token} if token else ())


@dataclass(frozen=True)
class Sources:
    """Downloads the files of dataset entries. Its call signature is `entries.Download`."""

    tree: ConfigTree = field(repr=False)
    """The configuration, with `hf_token`, `mlflow_tracking_uri` and `mlflow_tracking_token`."""
    environ: Mapping[str, str] = field(repr=False)
    progress: UploadProgress = field(default_factory=Silent)
    patience: TransferPatience = field(default_factory=TransferPatience)

    def __call__(self, entry: DatasetEntry, source: DataSource, destination: Path, /) -> None:
        """Download an entry's rows to `destination`, completely or not at all.

        Raises PalestraError, with all tokens masked in the message.
        """
        fetch = self._from_hub if source == "huggingface" else self._from_registry
        with self._masking():
            fetch(entry, destination)

    def from_hub(self, settings: HubDownload, *, or_split: str | None = None) -> None:
        """Download a file or split from the hub. `or_split`: the split to use when the requested
        one does not exist.
        """
        with self._masking():
            hub = open_hub(self.tree, self.environ, self.patience)
            hub.download(settings, self.progress, or_split=or_split)

    def split(self, reference: HubReference, cache: Path) -> Path:
        """Return a file with the rows of a split of the hub. It is kept in the folder `cache`."""
        with self._masking():
            hub = open_hub(self.tree, self.environ, self.patience)
            return hub.cached_split(reference, cache, self.progress)

    @contextlib.contextmanager
    def _masking(self) -> Iterator[None]:
        try:
            yield
        except PalestraError as error:
            mask_error(error, Redactor(find_secrets(self.tree) | credentials_in(self.environ)))
            raise

    def _from_hub(self, entry: DatasetEntry, destination: Path) -> None:
        identifier = entry.huggingface_identifier
        if identifier is None:
            raise ConfigError(f"dataset {entry.name!r} has no huggingface_identifier")
        settings = HubDownload(
            repo_id=identifier.repo_id,
            artifact_fpath=identifier.artifact_fpath,
            split=None if identifier.artifact_fpath else entry.type,
            output_fpath=str(destination),
        )
        self.from_hub(settings, or_split=OTHERWISE.get(entry.type))

    def _from_registry(self, entry: DatasetEntry, destination: Path) -> None:
        identifier = entry.gitlab_identifier
        if identifier is None:
            raise ConfigError(f"dataset {entry.name!r} has no gitlab_identifier")
        settings = GitlabDownload(
            dataset_name=identifier.dataset_name,
            version=identifier.version,
            artifact_fpath=identifier.artifact_fpath,
            output_fpath=str(destination),
        )
        address = RegistryAddress.of(self.tree, self.environ)
        with open_registry(address, self.patience) as registry:
            download_from_registry(settings, registry, self.progress)

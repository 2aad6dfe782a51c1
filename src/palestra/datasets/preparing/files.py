"""Choose the datasets of a preparation, and find their files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from palestra.config import did_you_mean_path
from palestra.datasets.entries import AgentDataset, DatasetEntry, DatasetType, DataSource, Download
from palestra.datasets.problems import missing_file
from palestra.errors import InputDataError, Problem

Mode = Literal["train_preparation", "example_validation"]

TYPES: Final[Mapping[Mode, tuple[DatasetType, ...]]] = {
    "train_preparation": ("train", "validation", "benchmark"),
    "example_validation": ("example",),
}


@dataclass(frozen=True, slots=True)
class Located:
    """A dataset and the path of its file, which may not exist yet."""

    dataset: AgentDataset
    path: Path

    @property
    def entry(self) -> DatasetEntry:
        """The dataset's entry in the configuration."""
        return self.dataset.entry

    @property
    def there(self) -> bool:
        """Whether the dataset's file exists."""
        return self.path.is_file()


def in_scope(datasets: Iterable[AgentDataset], mode: Mode) -> list[AgentDataset]:
    """Return the datasets whose types belong to `mode`, sorted by type."""
    all_datasets = list(datasets)
    return [
        dataset for kind in TYPES[mode] for dataset in all_datasets if dataset.entry.type == kind
    ]


def locate(datasets: Iterable[AgentDataset], place_of: Callable[[str], Path]) -> list[Located]:
    """Return each dataset with the path of its file. `place_of`: maps a path from the configuration
    to a path on disk.
    """
    return [Located(dataset, place_of(dataset.entry.jsonl_fpath)) for dataset in datasets]


def fetch(
    located: Sequence[Located],
    *,
    download: Download | None,
    preferred: DataSource,
    report: Callable[[str], None],
) -> None:
    """Download missing files.

    Raises InputDataError, before any download: lists every missing file when `download` is None or
    a file has no source.
    """
    missing = list({absent.path: absent for absent in located if not absent.there}.values())
    hopeless = [
        absent for absent in missing if download is None or absent.entry.source(preferred) is None
    ]
    if hopeless:
        raise InputDataError(
            "these files are missing:\n  " + "\n  ".join(_missing(absent) for absent in hopeless),
            hint=_how_to_get(hopeless, may_download=download is not None),
        )
    for absent in missing:
        source = absent.entry.source(preferred)
        if download is None or source is None:
            continue
        reason = "" if source == preferred else f" (it has no {preferred}_identifier)"
        report(f"downloading {absent.dataset} from {source}{reason} to {absent.path}")
        absent.path.parent.mkdir(parents=True, exist_ok=True)
        download(absent.entry, source, absent.path)
        if not absent.there:
            raise InputDataError(
                f"{absent.dataset} was downloaded, but {absent.path} does not exist"
            )


def unavailable(located: Iterable[Located]) -> tuple[Problem, ...]:
    """Return a problem for each dataset without a file, when no command can download or make it."""
    return tuple(
        Problem(f"{absent.dataset}: {missing.message}", hint=missing.hint, file=str(absent.path))
        for absent in located
        if not absent.there
        and absent.entry.source("huggingface") is None
        and not absent.entry.prepare_script
        for missing in (missing_file(absent.path),)
    )


def _missing(absent: Located) -> str:
    near = did_you_mean_path(absent.path)
    text = f"{absent.path} ({absent.entry.type} dataset {absent.dataset}){near}"
    return absent.dataset.locate(Problem(text)).message


def _how_to_get(missing: Sequence[Located], *, may_download: bool) -> str:
    hints = []
    entries = [absent.entry for absent in missing]
    hub_entries = [entry for entry in entries if entry.source("huggingface")]
    if hub_entries and not may_download:
        hints.append("--download downloads those with an identifier")
    if any(entry.prepare_script for entry in entries):
        hints.append("`palestra benchmark prepare` makes those with a prepare_script")
    if any(not entry.source("huggingface") and not entry.prepare_script for entry in entries):
        files = "the other files" if hints else "the files"
        hints.append(
            f"correct jsonl_fpath, copy {files} there, or set huggingface_identifier or "
            "gitlab_identifier of their datasets"
        )
    return "; ".join(hints)

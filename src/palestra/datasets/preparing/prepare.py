"""Turn files of rows into files for a trainer. Nothing is written until all rows are valid."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palestra.datasets.entries import AgentDataset, DatasetEntry
from palestra.datasets.measures.rows import TOKENS, RowMeasures
from palestra.datasets.metrics import DatasetMetrics, contradictions
from palestra.datasets.preparing.files import Located
from palestra.datasets.preparing.outputs import Outputs
from palestra.datasets.preparing.rows import DatasetRows, TakenRows
from palestra.datasets.problems import RowProblems
from palestra.datasets.prompts import load_prompt
from palestra.datasets.request_models import RowEndpoint
from palestra.errors import InputDataError
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject


@dataclass(frozen=True, slots=True)
class PrepareSettings:
    """The settings for preparing datasets. `place`: maps a path from the configuration to a path on
    disk.
    """

    output_dirpath: Path
    overwrite_metrics_conflicts: bool = False
    tokenizer: Path | None = None
    """The path of a `tokenizer.json` that is used to count tokens."""
    place: Callable[[str], Path] = Path
    project: Path | None = None
    """The project's folder. Outputs go beside rows inside this folder; for other rows they go below
    `output_dirpath`. None: always beside the rows."""


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """A prepared file that was written. `examples`: the number of rows before repetition."""

    path: Path
    metrics: Path
    examples: int
    rows: int
    summary: JsonObject
    """The statistics, in the format of the metrics file."""
    dataset: AgentDataset | None = None
    """The dataset. None: the file holds all datasets of one type."""


@dataclass(slots=True)
class _Examined:
    """One dataset with its measures, and the paths of its output files."""

    located: Located
    rows: DatasetRows
    stem: str
    folder: Path
    """The folder of this dataset's output files."""
    measures: RowMeasures = field(default_factory=RowMeasures)
    agreed: bool = False
    """Whether stored metrics already contain the same numbers, so they are not rewritten."""

    @property
    def metrics_path(self) -> Path:
        return self.folder / f"{self.stem}_metrics.json"

    @property
    def stored_metrics_path(self) -> Path:
        """The path of existing metrics: those of an earlier preparation, else those stored with the
        rows.
        """
        beside_the_rows = self.located.path.with_name(self.metrics_path.name)
        return self.metrics_path if self.metrics_path.exists() else beside_the_rows

    @property
    def conflict_path(self) -> Path:
        return self.folder / f"{self.stem}_metrics_conflict.json"

    @property
    def prepared_path(self) -> Path:
        return self.folder / f"{self.stem}_prepare.jsonl"

    def metrics(self) -> DatasetMetrics:
        return {**described(self.located.entry), **self.measures.summary()}


def prepare_datasets(
    located: Sequence[Located],
    settings: PrepareSettings,
    *,
    doors: Mapping[str, Sequence[RowEndpoint]],
) -> list[PreparedFile]:
    """Check and measure every row, write all rows with their agent, then write the metrics.

    `doors`: agent -> the request schemas of its servers. Raises InputDataError: lists every bad
    row, and writes nothing; or existing metrics differ, and then the new metrics are written to a
    separate file beside them.
    """
    examined = _planned(located, settings, doors)
    _refuse_own_inputs(examined, settings)
    with Outputs() as outputs:
        _write_rows(examined, outputs, settings)
        _compare(examined, overwrite=settings.overwrite_metrics_conflicts)
        prepared = _write_metrics(examined, outputs, settings)
        outputs.put_in_place()
    for dataset in examined:
        dataset.conflict_path.unlink(missing_ok=True)
    return prepared


def _planned(
    located: Sequence[Located],
    settings: PrepareSettings,
    doors: Mapping[str, Sequence[RowEndpoint]],
) -> list[_Examined]:
    stems = _stems(located)
    planned = []
    for dataset, stem in zip(located, stems, strict=True):
        entry, agent = dataset.entry, dataset.dataset.agent
        prompt = load_prompt(settings.place(entry.prompt_config)) if entry.prompt_config else None
        rows = DatasetRows(
            path=dataset.path,
            agent=agent,
            repeats=entry.num_repeats,
            start=entry.start_idx or 0,
            end=entry.end_idx,
            prompt=prompt,
            doors=tuple(doors.get(agent, ())),
            tokenizer=settings.tokenizer,
        )
        planned.append(_Examined(dataset, rows, stem, _folder_of(dataset, settings)))
    return planned


def _folder_of(located: Located, settings: PrepareSettings) -> Path:
    """Return the output folder: the folder of the rows. For rows outside the project (for example
    in an installed package), a folder below the output folder.
    """
    folder = located.path.parent
    if settings.project is None or folder.resolve().is_relative_to(settings.project.resolve()):
        return folder
    entry_folder = Path(located.entry.jsonl_fpath).parent
    below = [part for part in entry_folder.parts if part not in {entry_folder.anchor, ".."}]
    return settings.output_dirpath.joinpath(*below)


def _stems(located: Sequence[Located]) -> list[str]:
    """Return the base name of each dataset's output files: the input file's stem, extended to be
    unique when datasets share a file.
    """
    names = [
        (dataset.path, (dataset.path.stem, dataset.entry.name, dataset.dataset.agent))
        for dataset in located
    ]
    stems = []
    for number, (path, name) in enumerate(names):
        for length in (1, 2, 3):
            stem = "_".join(name[:length])
            if not any(
                path == other_path and name[:length] == other_name[:length]
                for at, (other_path, other_name) in enumerate(names)
                if at != number
            ):
                break
        else:
            stem = f"{stem}_{number}"
        stems.append(stem)
    return stems


def _refuse_own_inputs(examined: Sequence[_Examined], settings: PrepareSettings) -> None:
    inputs = {dataset.located.path.resolve() for dataset in examined}
    outputs = [dataset.prepared_path for dataset in examined]
    outputs += [_of_type(settings, dataset.located.entry.type) for dataset in examined]
    if clash := next((path for path in outputs if path.resolve() in inputs), None):
        raise InputDataError(
            f"{clash} is one of the datasets, and would be overwritten",
            hint="give another --output-dir",
        )


def _of_type(settings: PrepareSettings, kind: str) -> Path:
    return settings.output_dirpath / f"{kind}.jsonl"


def _write_rows(
    examined: Sequence[_Examined],
    outputs: Outputs,
    settings: PrepareSettings,
) -> None:
    """Check, measure and write the rows of every dataset. The file of a type holds its datasets in
    order.

    Raises InputDataError that lists all bad rows.
    """
    problems = RowProblems()
    empty: list[str] = []
    for kind, group in itertools.groupby(examined, key=lambda dataset: dataset.located.entry.type):
        write_of_type = outputs.make(_of_type(settings, kind))
        for dataset in group:
            write_own = outputs.make(dataset.prepared_path)
            taken_rows = TakenRows(dataset.rows, problems)
            for line in taken_rows.lines():
                if problems:
                    continue  # nothing will be put in place; the rest is looked at
                for _ in range(dataset.rows.repeats):
                    write_own(line)
                    write_of_type(line)
            dataset.measures = taken_rows.measures
            if not taken_rows.count:
                empty.append(f"{dataset.rows.path} has no rows")
            elif not dataset.measures.examples and not problems:
                empty.append(
                    f"{dataset.rows.path} has no rows from {dataset.rows.start} to {dataset.rows.end}"
                )
    problems.raise_if_any(hint="nothing was written; fix these rows, or remove them")
    if empty:
        raise InputDataError(
            "\n".join(empty), hint=f"each line must be one task: a JSON object with {CREATE_PARAMS}"
        )


def _compare(examined: Sequence[_Examined], *, overwrite: bool) -> None:
    """Compare the new metrics with the stored ones. Raises InputDataError: they differ and
    `overwrite` is false.
    """
    report_lines: list[str] = []
    conflicts = []
    for dataset in examined:
        differing = _contradicted(dataset)
        dataset.agreed = differing == [] and dataset.metrics_path.exists()
        if differing and not overwrite:
            conflicts.append(dataset)
            report_lines.append(f"{dataset.stored_metrics_path} says otherwise:")
            report_lines += [f"  {difference}" for difference in differing]
    if not conflicts:
        return
    with Outputs() as outputs:
        for dataset in conflicts:
            outputs.make(dataset.conflict_path)(_as_json(dataset.metrics()))
        outputs.put_in_place()
    raise InputDataError(
        "\n".join(report_lines),
        hint="the new numbers are in "
        + ", ".join(str(dataset.conflict_path) for dataset in conflicts)
        + "; if they are right, --overwrite-metrics-conflicts",
    )


def _contradicted(dataset: _Examined) -> list[str] | None:
    """Return how the new metrics contradict the stored ones; None when no metrics are stored or the
    stored ones lack token counts.
    """
    try:
        stored = json.loads(dataset.stored_metrics_path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return [f"it cannot be read: {error}"]
    if not isinstance(stored, dict):
        return ["it is not a JSON object"]
    metrics = dataset.metrics()
    return contradictions(stored, json.loads(_as_json(metrics))) or _none_missing(stored, metrics)


def _none_missing(stored: JsonObject, metrics: DatasetMetrics) -> list[str] | None:
    """Return an empty list; None when only the new metrics contain token counts, so the stored ones
    must be replaced.
    """
    return None if TOKENS in metrics and TOKENS not in stored else []


def _write_metrics(
    examined: Sequence[_Examined], outputs: Outputs, settings: PrepareSettings
) -> list[PreparedFile]:
    """Write the metrics of each dataset, and of all datasets of each type together."""
    prepared = []
    for kind, group in itertools.groupby(examined, key=lambda dataset: dataset.located.entry.type):
        together = list(group)
        for dataset in together:
            if not dataset.agreed:
                outputs.make(dataset.metrics_path)(_as_json(dataset.metrics()))
            examples = dataset.measures.examples
            prepared.append(
                PreparedFile(
                    dataset.prepared_path,
                    dataset.metrics_path,
                    examples,
                    examples * dataset.rows.repeats,
                    dataset.measures.summary(),
                    dataset.located.dataset,
                )
            )
        prepared.append(_of_all(kind, _of_type(settings, kind), together, outputs))
    return prepared


def _of_all(kind: str, path: Path, together: Sequence[_Examined], outputs: Outputs) -> PreparedFile:
    """Write the metrics of all datasets of one type together."""
    measures = RowMeasures()
    for dataset in together:
        measures.merge(dataset.measures)
    rows = sum(dataset.measures.examples * dataset.rows.repeats for dataset in together)
    about = {"name": kind, "type": kind, "jsonl_fpath": str(path), "Number of rows": rows}
    metrics = path.with_name(f"{kind}_metrics.json")
    summary = measures.summary()
    outputs.make(metrics)(_as_json({**about, **summary}))
    return PreparedFile(path, metrics, measures.examples, rows, summary)


def described(entry: DatasetEntry) -> JsonDict:
    """Return the fields of a metrics file that describe the dataset itself."""
    of_the_field = {
        "name", "type", "jsonl_fpath", "num_repeats", "gitlab_identifier",
        "huggingface_identifier", "license",
    }  # fmt: skip
    entry_fields = entry.model_dump()
    return {
        name: value
        for name, value in entry_fields.items()
        if name in of_the_field or value is not None
    }


def _as_json(metrics: DatasetMetrics) -> bytes:
    return (json.dumps(metrics, indent=4) + "\n").encode()

"""From files of rows to files that a trainer reads: all of them, once everything is known good."""

import itertools
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palestra.config import nearest
from palestra.datasets.entries import AgentDataset, DatasetEntry
from palestra.datasets.measures.rows import TOKENS, RowMeasures
from palestra.datasets.metrics import DatasetMetrics, contradictions
from palestra.datasets.preparing.files import Located
from palestra.datasets.preparing.outputs import Outputs
from palestra.datasets.preparing.rows import DatasetRows, TakenRows
from palestra.datasets.problems import RowProblems
from palestra.datasets.prompts import load_prompt
from palestra.datasets.request_models import RowEndpoint
from palestra.datasets.row_checks import KNOWN_PARAMS
from palestra.errors import InputDataError
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject

MISSPELT_FROM = 0.85
"""Likeness to a known parameter from which an unknown one is taken for it."""


@dataclass(frozen=True, slots=True)
class PrepareSettings:
    """How datasets are prepared. `place`: of a path as the configuration gives it."""

    output_dirpath: Path
    overwrite_metrics_conflicts: bool = False
    tokenizer: Path | None = None
    """A `tokenizer.json`, to count tokens with."""
    place: Callable[[str], Path] = Path
    project: Path | None = None
    """Files are written beside rows that lie below it, and else below `output_dirpath`; None:
    beside all rows."""


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """A file that was written. `examples`: rows before they were repeated."""

    path: Path
    metrics: Path
    examples: int
    rows: int
    summary: JsonObject
    """The statistics, as the metrics file holds them."""
    dataset: AgentDataset | None = None
    """None: all datasets of a type together."""


@dataclass(slots=True)
class _Examined:
    """One dataset: what was found in it, and where its files go."""

    located: Located
    rows: DatasetRows
    stem: str
    folder: Path
    """Where what is written for this dataset goes."""
    measures: RowMeasures = field(default_factory=RowMeasures)
    agreed: bool = False
    """Whether metrics are there that say the same, and as much: they stay as they are."""

    @property
    def metrics_path(self) -> Path:
        return self.folder / f"{self.stem}_metrics.json"

    @property
    def stored_metrics_path(self) -> Path:
        """The metrics that there are already: those that were written, else those of the rows."""
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
    tell: Callable[[str], None],
) -> list[PreparedFile]:
    """Check and measure every row, and write it with its agent; then write the metrics.

    `doors`: agent -> what its servers take. Raises InputDataError naming every bad row, and then
    nothing is written; and when earlier metrics say something else, which is then written beside
    them.
    """
    examined = _planned(located, settings, doors)
    _refuse_own_inputs(examined, settings)
    with Outputs() as outputs:
        _write_rows(examined, outputs, settings, tell)
        _compare(examined, overwrite=settings.overwrite_metrics_conflicts)
        made = _write_metrics(examined, outputs, settings)
        outputs.put_in_place()
    for one in examined:
        one.conflict_path.unlink(missing_ok=True)
    return made


def _planned(
    located: Sequence[Located],
    settings: PrepareSettings,
    doors: Mapping[str, Sequence[RowEndpoint]],
) -> list[_Examined]:
    stems = _stems(located)
    planned = []
    for found, stem in zip(located, stems, strict=True):
        entry, agent = found.entry, found.dataset.agent
        prompt = load_prompt(settings.place(entry.prompt_config)) if entry.prompt_config else None
        rows = DatasetRows(
            path=found.path,
            agent=agent,
            repeats=entry.num_repeats,
            start=entry.start_idx or 0,
            end=entry.end_idx,
            prompt=prompt,
            doors=tuple(doors.get(agent, ())),
            tokenizer=settings.tokenizer,
        )
        planned.append(_Examined(found, rows, stem, _folder_of(found, settings)))
    return planned


def _folder_of(located: Located, settings: PrepareSettings) -> Path:
    """Beside the rows; for rows outside of the project (an installed package's) below the output."""
    folder = located.path.parent
    if settings.project is None or folder.resolve().is_relative_to(settings.project.resolve()):
        return folder
    given = Path(located.entry.jsonl_fpath).parent
    below = [part for part in given.parts if part not in {given.anchor, ".."}]
    return settings.output_dirpath.joinpath(*below)


def _stems(located: Sequence[Located]) -> list[str]:
    """What the files of each dataset are called after: its file, told apart where two share it."""
    names = [
        (found.path, (found.path.stem, found.entry.name, found.dataset.agent)) for found in located
    ]
    stems = []
    for number, (path, name) in enumerate(names):
        for length in (1, 2, 3):
            stem = "_".join(name[:length])
            if not any(
                path == other and name[:length] == held[:length]
                for at, (other, held) in enumerate(names)
                if at != number
            ):
                break
        else:
            stem = f"{stem}_{number}"
        stems.append(stem)
    return stems


def _refuse_own_inputs(examined: Sequence[_Examined], settings: PrepareSettings) -> None:
    inputs = {one.located.path.resolve() for one in examined}
    outputs = [one.prepared_path for one in examined]
    outputs += [_of_type(settings, one.located.entry.type) for one in examined]
    if clash := next((path for path in outputs if path.resolve() in inputs), None):
        raise InputDataError(
            f"{clash} is one of the datasets, and would be written over",
            hint="give another output_dirpath",
        )


def _of_type(settings: PrepareSettings, kind: str) -> Path:
    return settings.output_dirpath / f"{kind}.jsonl"


def _write_rows(
    examined: Sequence[_Examined],
    outputs: Outputs,
    settings: PrepareSettings,
    tell: Callable[[str], None],
) -> None:
    """Check, measure and write every row of every dataset; those of a type stand in their order.

    Raises InputDataError naming all rows that are bad.
    """
    problems = RowProblems()
    empty: list[str] = []
    for kind, group in itertools.groupby(examined, key=lambda one: one.located.entry.type):
        write_of_type = outputs.make(_of_type(settings, kind))
        for one in group:
            write_own = outputs.make(one.prepared_path)
            taken = TakenRows(one.rows, problems)
            for line in taken.lines():
                if problems:
                    continue  # nothing will be put in place; the rest is looked at
                for _ in range(one.rows.repeats):
                    write_own(line)
                    write_of_type(line)
            one.measures = taken.measures
            _warn_of(taken.unknown_params, one, tell)
            if not taken.count:
                empty.append(f"{one.rows.path} has no rows")
            elif not one.measures.examples and not problems:
                empty.append(f"{one.rows.path} has no rows from {one.rows.start} to {one.rows.end}")
    problems.raise_if_any(hint="nothing was written; mend these rows, or take them out")
    if empty:
        raise InputDataError(
            "\n".join(empty), hint=f"one task a line, as JSON with {CREATE_PARAMS}"
        )


def _warn_of(unknown: Collection[str], one: _Examined, tell: Callable[[str], None]) -> None:
    for name in sorted(unknown):
        if near := nearest(name, KNOWN_PARAMS, cutoff=MISSPELT_FROM):
            tell(
                f"warning: {one.rows.path}: /{CREATE_PARAMS}/{name} is no parameter that we know, "
                f"so the endpoint gets it as it is; did you mean {near!r}?"
            )


def _compare(examined: Sequence[_Examined], *, overwrite: bool) -> None:
    """Hold the metrics to those that are there already."""
    told: list[str] = []
    conflicts = []
    for one in examined:
        differing = _contradicted(one)
        one.agreed = differing == [] and one.metrics_path.exists()
        if differing and not overwrite:
            conflicts.append(one)
            told.append(f"{one.stored_metrics_path} says otherwise:")
            told += [f"  {difference}" for difference in differing]
    if not conflicts:
        return
    with Outputs() as outputs:
        for one in conflicts:
            outputs.make(one.conflict_path)(_as_json(one.metrics()))
        outputs.put_in_place()
    raise InputDataError(
        "\n".join(told),
        hint="the new numbers are in "
        + ", ".join(str(one.conflict_path) for one in conflicts)
        + "; if they are right, +overwrite_metrics_conflicts=true (--overwrite-metrics-conflicts)",
    )


def _contradicted(one: _Examined) -> list[str] | None:
    """What the metrics that are there say otherwise; None when there are none to keep."""
    try:
        stored = json.loads(one.stored_metrics_path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return [f"it cannot be read: {error}"]
    if not isinstance(stored, dict):
        return ["it is no JSON object"]
    metrics = one.metrics()
    return contradictions(stored, json.loads(_as_json(metrics))) or _none_missing(stored, metrics)


def _none_missing(stored: JsonObject, found: DatasetMetrics) -> list[str] | None:
    """Nothing, when tokens are counted in both or in none."""
    return None if TOKENS in found and TOKENS not in stored else []


def _write_metrics(
    examined: Sequence[_Examined], outputs: Outputs, settings: PrepareSettings
) -> list[PreparedFile]:
    """Write the metrics of each dataset, and of all of a type."""
    made = []
    for kind, group in itertools.groupby(examined, key=lambda one: one.located.entry.type):
        together = list(group)
        for one in together:
            if not one.agreed:
                outputs.make(one.metrics_path)(_as_json(one.metrics()))
            examples = one.measures.examples
            made.append(
                PreparedFile(
                    one.prepared_path,
                    one.metrics_path,
                    examples,
                    examples * one.rows.repeats,
                    one.measures.summary(),
                    one.located.dataset,
                )
            )
        made.append(_of_all(kind, _of_type(settings, kind), together, outputs))
    return made


def _of_all(kind: str, path: Path, together: Sequence[_Examined], outputs: Outputs) -> PreparedFile:
    """The metrics of all datasets of a type."""
    measures = RowMeasures()
    for one in together:
        measures.merge(one.measures)
    rows = sum(one.measures.examples * one.rows.repeats for one in together)
    about = {"name": kind, "type": kind, "jsonl_fpath": str(path), "Number of rows": rows}
    metrics = path.with_name(f"{kind}_metrics.json")
    summary = measures.summary()
    outputs.make(metrics)(_as_json({**about, **summary}))
    return PreparedFile(path, metrics, measures.examples, rows, summary)


def described(entry: DatasetEntry) -> JsonDict:
    """What a metrics file says of the dataset itself."""
    of_the_field = {
        "name", "type", "jsonl_fpath", "num_repeats", "gitlab_identifier",
        "huggingface_identifier", "license",
    }  # fmt: skip
    held = entry.model_dump()
    return {
        name: value for name, value in held.items() if name in of_the_field or value is not None
    }


def _as_json(metrics: DatasetMetrics) -> bytes:
    return (json.dumps(metrics, indent=4) + "\n").encode()

"""`palestra diagnose`: find out what went wrong from the files that a run left behind.

Observations are classified by the signature table and grouped by cause. A finding that follows from
another one is reported as its consequence. An observation that only passes on another failure
counts only when there is nothing else. An observation without an entry in the table stays unknown:
it is quoted, with everything that was examined.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from palestra.causes import LAYERS, Severity, Signature, SignatureTable, stem_of
from palestra.datasets import RowEndpoint
from palestra.doctor.diagnosis import Diagnosis
from palestra.doctor.findings import Finding, Quote
from palestra.doctor.locating import LocatedFiles, locate, outputs_named, ray_log_of
from palestra.doctor.logs import read_log
from palestra.doctor.outputs import CodeChanges, RunReading, read_run, unchanged
from palestra.doctor.quoting import quote_fields
from palestra.doctor.reading import LogObservation, LogReading, Rank
from palestra.doctor.staleness import stale_inputs
from palestra.errors import InputDataError, Layer
from palestra.rollouts import Manifest
from palestra.schema import the_command
from palestra.system import shown

MOST_EVIDENCE: Final = 8
MOST_UNKNOWN: Final = 5
MOST_RECORDED: Final = 1_000
"""Largest number of recorded failures that log lines are compared with."""
UNKNOWN: Final = "unknown"
_NUMBER: Final = re.compile(r"\d+")
_JOB: Final = re.compile(r"slurm job (\S+):")

DoorsOf = Callable[[Manifest], Mapping[str, Sequence[RowEndpoint]]]
"""Returns for each agent the request models that its rows must pass, as far as known."""


@dataclass(slots=True)
class _Group:
    """The observations of one cause, with the table entry that describes it."""

    layer: Layer
    cause: str
    signature: Signature | None
    named: dict[str, str] = field(default_factory=dict)
    observations: list[LogObservation] = field(default_factory=list)
    harmless: bool = False
    """Whether every rollout was scored in spite of this cause."""

    @property
    def rank(self) -> Rank:
        return min(observation.rank for observation in self.observations)

    @property
    def rollouts(self) -> int:
        """The number of rollouts with this cause, counted where the row is known."""
        struck = ((o.row.task, o.row.rollout) for o in self.observations if o.row is not None)
        return len(set(struck))

    @property
    def severity(self) -> Severity:
        if self.harmless or all(observation.recovered for observation in self.observations):
            return Severity.WARNING
        return self.signature.severity if self.signature else Severity.ERROR


def diagnose(
    subject_name: str,
    *,
    folder: Path,
    table: SignatureTable,
    sources: tuple[Path, ...] = (),
    logs: tuple[Path, ...] = (),
    doors_of: DoorsOf | None = None,
    code_changes: CodeChanges = unchanged,
) -> Diagnosis:
    """Return what went wrong with `subject_name`: an output or its stem, a folder, a log, a Slurm
    job.

    `sources`: the input files, if the run does not record them. `logs`: additional logs.
    `code_changes`: the files of a run's servers that have changed since the run began. Raises
    BadInput: `subject_name` is no run. Raises InputDataError: a file cannot be read.
    """
    subject = locate(subject_name, folder=folder)
    try:
        log_readings, runs = _read_files(subject, logs, folder, table, code_changes)
        observations = [*(subject.job.observations if subject.job else ())]
        for run in runs:
            observations += stale_inputs(run, sources)
        rows = [observation for run in runs for observation in run.observations]
        for log in log_readings:
            observations += _as_recorded(log.observations, rows)
        observations += rows
        return _diagnosis(subject_name, subject, log_readings, runs, observations, table, doors_of)
    except OSError as error:
        raise InputDataError(f"{error.filename}: {error.strerror}") from error


def _read_files(
    subject: LocatedFiles,
    logs: tuple[Path, ...],
    folder: Path,
    table: SignatureTable,
    code_changes: CodeChanges,
) -> tuple[list[LogReading], list[RunReading]]:
    log_readings = [read_log(path, table) for path in dict.fromkeys((*subject.logs, *logs))]
    if ray := ray_log_of(observation for log in log_readings for observation in log.observations):
        log_readings.append(read_log(ray, table))
    outputs = dict.fromkeys(path.absolute() for path in subject.outputs)
    for log in log_readings:
        search_folder = subject.job.folder if subject.job and subject.job.folder else folder
        for output in outputs_named(log.path, log.outputs, folder=search_folder):
            outputs[output.absolute()] = None
    return log_readings, [read_run(output, code_changes) for output in outputs]


def _as_recorded(
    observations: Iterable[LogObservation], rows: Sequence[LogObservation]
) -> Iterator[LogObservation]:
    """Yield a log's observations; rollout failures get the fuller text from the failures file.

    The text in the failures file begins with the servers that the call passed.
    """
    recorded = (row.text for row in rows if row.row is not None)
    texts = dict.fromkeys(islice(recorded, MOST_RECORDED))
    for observation in observations:
        if observation.rank is Rank.FAILURE and observation.row is None:
            same = (text for text in texts if text.endswith(observation.text))
            observation = replace(observation, text=next(same, observation.text))  # noqa: PLW2901
        yield observation


def _diagnosis(
    subject_name: str,
    subject: LocatedFiles,
    logs: list[LogReading],
    runs: list[RunReading],
    observations: list[LogObservation],
    table: SignatureTable,
    doors_of: DoorsOf | None,
) -> Diagnosis:
    groups, unknown = _grouped(observations, table)
    are_whole = bool(runs) and all(_is_whole(run) for run in runs)
    for group in groups:
        # A command that warns of what did not come true, or of what cost time alone.
        group.harmless = are_whole and group.rank is Rank.LINE
    roots, following = _without_consequences(groups)
    looked_at = _looked_at(subject, logs, runs)
    findings = [_finding(group, runs, doors_of, looked_at) for group in _ordered(roots)]
    return Diagnosis(
        subject_name,
        tuple(findings),
        {str(run.paths.output): run.counts for run in runs},
        tuple(f"{group.cause}: {group.observations[0].text}" for group in following),
        tuple(unknown[:MOST_UNKNOWN]),
        looked_at,
        sum(log.noise for log in logs),
        are_whole,
    )


def _is_whole(run: RunReading) -> bool:
    """Whether every requested rollout was scored."""
    return run.counts.scored > 0 and not run.counts.failed and not run.counts.missing


def _grouped(
    observations: Iterable[LogObservation], table: SignatureTable
) -> tuple[list[_Group], list[Quote]]:
    """Return observations grouped by cause, and quotes of those without a known cause."""
    heard: dict[str, _Group] = {}
    relayed: dict[str, _Group] = {}
    unknown: list[Quote] = []
    group_of_text: dict[str, _Group | None] = {}
    for observation in observations:
        # Thousands of failures differ in their numbers alone.
        alike = f"{observation.cause} {observation.layer} {observation.rank} " + _NUMBER.sub(
            "0", observation.text
        )
        if alike not in group_of_text:
            group_of_text[alike] = _group_of(observation, table)
        group = group_of_text[alike]
        if group is None:
            if observation.rank <= Rank.EXCEPTION:
                unknown += observation.quotes[:2]
            continue
        groups = relayed if observation.rank is Rank.RELAY else heard
        merged = groups.setdefault(group.cause, replace(group, observations=[]))
        merged.observations.append(observation)
    return list((heard or relayed).values()), unknown


def _group_of(observation: LogObservation, table: SignatureTable) -> _Group | None:
    signature = table.explain(observation.cause, observation.text)
    if signature is not None:
        fields = signature.fields_in(observation.text)
        if job := _JOB.search(observation.text):
            fields["job"] = job[1]
        return _Group(signature.layer, signature.cause, signature, fields)
    if observation.layer is None or observation.rank is Rank.RELAY:
        return None
    # The run itself has recorded whose failure it is; only why is not known.
    return _Group(observation.layer, f"{stem_of(observation.layer)}.{UNKNOWN}", None)


def _without_consequences(groups: list[_Group]) -> tuple[list[_Group], list[_Group]]:
    """Separate the groups into causes and consequences of these causes."""
    explained: set[str] = set()
    warnings = {group.cause for group in groups if group.severity is not Severity.ERROR}
    for group in groups:
        if group.signature is not None:
            follows = group.signature.explains
            # What is only a warning is the reason of no error.
            explained |= follows if group.severity is Severity.ERROR else follows & warnings
        if group.rank is Rank.ENDED and group.severity is Severity.ERROR:
            explained.add("cache.unfinished")
    roots = [group for group in groups if group.cause not in explained]
    # Two that explain each other are both causes.
    if not roots:
        return groups, []
    return roots, [group for group in groups if group.cause in explained]


def _ordered(groups: list[_Group]) -> list[_Group]:
    """Sort the groups: errors first, then what ended the command, then causes of many rollouts."""
    severities = tuple(Severity)
    return sorted(
        groups,
        key=lambda group: (
            severities.index(group.severity),
            group.rank,
            -group.rollouts,
            LAYERS.index(group.layer) if group.rollouts else 0,
        ),
    )


def _finding(
    group: _Group, runs: list[RunReading], doors_of: DoorsOf | None, looked_at: Sequence[str]
) -> Finding:
    first = min(group.observations, key=lambda observation: observation.rank)
    struck = group.rollouts
    many = f" ({struck} rollouts)" if struck > 1 else ""
    why, do = _symptom_and_remedy(group, first, runs, looked_at)
    # Whoever recorded the row knows more of it than the line of a log.
    told_of_a_row = next((o for o in group.observations if o.row is not None), first)
    nearer = first.rank >= Rank.FAILURE or told_of_a_row.text.endswith(first.text)
    symptom = told_of_a_row.text if nearer else first.text
    return Finding(
        layer=group.layer,
        cause=group.cause,
        symptom=symptom + many,
        likely_cause=why,
        next_action=do,
        evidence=_evidence(group, first, told_of_a_row, runs, doors_of),
        row=told_of_a_row.row,
        severity=group.severity,
    )


def _symptom_and_remedy(
    group: _Group, first: LogObservation, runs: Sequence[RunReading], looked_at: Sequence[str]
) -> tuple[str, str]:
    if group.signature is None:
        return (
            f"unknown: recorded as a failure of {group.layer.value}, but no known cause matches it",
            first.hint or f"read the quoted lines; looked at: {'; '.join(looked_at)}",
        )
    recorded = (observation.reverify for observation in group.observations)
    commands = set(filter(None, recorded))
    fields = {**_input_file(runs), **group.named}
    return group.signature.why, group.signature.action(fields, reverify=the_command(commands))


def _input_file(runs: Sequence[RunReading]) -> Mapping[str, str]:
    """Return the file of task rows as a field of advice; nothing unless there is just one."""
    manifests = [run.manifest for run in runs if run.manifest is not None]
    paths = {path for manifest in manifests for path in manifest.inputs}
    if len(paths) != 1:
        return {}
    [path] = paths
    return {"file": shlex.quote(shown(Path(path)))}


def _evidence(
    group: _Group,
    first: LogObservation,
    of_a_row: LogObservation,
    runs: list[RunReading],
    doors_of: DoorsOf | None,
) -> tuple[Quote, ...]:
    quotes = [*first.quotes, *of_a_row.quotes]
    if group.layer in {Layer.DATA, Layer.VERIFIER} and of_a_row.row is not None:
        for run in runs:
            quotes += _row_quotes(run, of_a_row, doors_of)
    for observation in group.observations[:3]:
        quotes += observation.quotes[:1]
    return tuple(dict.fromkeys(quotes))[:MOST_EVIDENCE]


def _row_quotes(
    run: RunReading, observation: LogObservation, doors_of: DoorsOf | None
) -> tuple[Quote, ...]:
    """Quote the fields of the failing row that do not pass the known request models."""
    row = observation.row
    if row is None:
        return ()
    doors = doors_of(run.manifest) if doors_of is not None and run.manifest is not None else {}
    return quote_fields(
        run.paths.materialized_inputs, row, observation.problems, doors.get(row.agent, ())
    )


def _looked_at(
    subject: LocatedFiles, logs: list[LogReading], runs: list[RunReading]
) -> tuple[str, ...]:
    looked_at = [f"{log.path} ({log.lines} lines)" for log in logs]
    if subject.job is not None:
        looked_at.insert(0, f"`{subject.job.asked}`: {subject.job.state}")
    for run in runs:
        looked_at += [str(path) for path in run.looked_at]
        sources = run.manifest.inputs if run.manifest else ()
        looked_at += [
            f"{path} (does not exist any more)" for path in sources if not Path(path).exists()
        ]
    return tuple(looked_at)

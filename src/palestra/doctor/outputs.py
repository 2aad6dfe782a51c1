"""Read the files of a run: how its rollouts ended, and whether the files match each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import orjson

from palestra.causes import SignatureTable, failure_text, innermost, one_line
from palestra.doctor.findings import Quote, quote
from palestra.doctor.reading import LogObservation, Rank, line_at
from palestra.doctor.scores import ScoredRow, ScoredRows
from palestra.errors import FieldProblem, InputDataError, Layer, RowIdentity
from palestra.rollouts import (
    ENDED_RUN,
    Manifest,
    announcement_of,
    ask_collection,
    is_being_written,
    read_manifest,
    rows_to_verify,
)
from palestra.schema import (
    AGENT_REF,
    FAILURE_LAYER,
    FAILURE_TERMINAL,
    ROLLOUT_INDEX,
    TASK_INDEX,
    FailedAttempts,
    JsonObject,
    Remedy,
    RolloutKey,
    RunPaths,
    Unscored,
    own_hint,
    recorded_command,
)

MOST_EXAMPLES: Final = 3
MOST_QUOTED: Final = 2_000
"""Number of failed attempts whose lines are quoted; of further ones only the message is kept."""


class _Key(msgspec.Struct):
    task: int = msgspec.field(name=TASK_INDEX)
    rollout: int = msgspec.field(name=ROLLOUT_INDEX)


@dataclass(slots=True)
class RowCounts:
    """The numbers of rows in a run's files. `requested` is None without a manifest."""

    requested: int | None = None
    inputs: int = 0
    scored: int = 0
    truncated: int = 0
    failed_attempts: int = 0
    failed: int = 0
    """The number of rollouts that ended without a reward."""
    profile_rows: int = 0
    running: bool = False
    """Whether a command collects the run now: what has not ended is in flight, or not started."""
    in_flight: int | None = None
    """The number of rollouts in flight; None when no running command says it."""
    what_helps: str = ""
    """Text that explains how to get a score for unscored rollouts; empty when all are scored."""

    @property
    def missing(self) -> int:
        """The number of rollouts that were neither scored nor failed."""
        expected = self.inputs if self.requested is None else self.requested
        return max(0, expected - self.scored - self.failed)


@dataclass(slots=True)
class RunReading:
    """The files of one run, after reading."""

    paths: RunPaths
    counts: RowCounts = field(default_factory=RowCounts)
    observations: list[LogObservation] = field(default_factory=list)
    manifest: Manifest | None = None
    looked_at: list[Path] = field(default_factory=list)
    is_reverified: bool = False
    """Whether the files are those of a re-verification. It has no manifest of a run, and its failures
    have no further attempts.
    """


CodeChanges = Callable[[Manifest], Sequence[str]]
"""Returns the files of the code of a run's servers that have changed since the run began, as far as
known: the server and the name of the file."""


def unchanged(_manifest: Manifest) -> Sequence[str]:
    """Return nothing: a `CodeChanges` that knows of no code."""
    return ()


def read_run(output: Path, code_changes: CodeChanges = unchanged) -> RunReading:
    """Read the files of the run at `output`. Raises OSError: a file cannot be read."""
    paths = RunPaths(output)
    run = RunReading(
        paths, _counts_now(output), looked_at=[path for path in paths.recorded() if path.exists()]
    )
    absence = _read_manifest(run)
    requested = set(_keys(run, paths.materialized_inputs))
    run.counts.inputs = len(requested)
    scored = _read_scored(run, requested)
    attempts = _read_failures(run, scored)
    profile = output.with_name(f"{output.stem}_reward_profiling.jsonl")
    if profile.exists():
        with profile.open("rb") as rows:
            run.counts.profile_rows = sum(1 for _ in rows)
    _missing(run)
    expected = run.counts.inputs if run.counts.requested is None else run.counts.requested
    untried = max(0, expected - len(scored | attempts.keys()))
    if absence is not None and (untried or attempts.keys() - scored):
        run.observations.append(absence)
    if not run.is_reverified:
        unscored = attempts.unscored(scored=scored, missing=untried)
        if run.counts.running:
            unscored = _without_resume(unscored)
        elif unscored.has_resume and run.manifest is not None:
            unscored = replace(unscored, changed_code=code_changes(run.manifest))
        run.counts.what_helps = unscored.what_helps()
    return run


def _counts_now(output: Path) -> RowCounts:
    """Return the empty counts of a run, with what a command that collects it now says."""
    where = announcement_of(output)
    if where is None:
        return RowCounts(running=is_being_written(output))
    report = ask_collection(where)
    return RowCounts(running=True, in_flight=len(report["in_flight"]) if report else None)


def _without_resume(unscored: Unscored) -> Unscored:
    """Return the remedies that are left for a run that goes on by itself."""
    counts: dict[Remedy, int] = {
        remedy: n for remedy, n in unscored.counts.items() if remedy is not Remedy.RESUME
    }
    return Unscored(counts, unscored.reverify)


def _read_manifest(run: RunReading) -> LogObservation | None:
    """Read the manifest. Return what its absence means for a run that is to go on: it cannot be
    resumed. A run without anything to go on with, as one made of another tool's rollouts, lacks none.
    """
    path = run.paths.manifest
    exists = path.exists()
    if not exists:
        run.counts.requested = rows_to_verify(run.paths.output)
        run.is_reverified = run.counts.requested is not None
        if run.is_reverified or not run.paths.materialized_inputs.exists():
            return None  # of a re-verification, of another tool, or nothing at all
    try:
        run.manifest = read_manifest(path)
        run.counts.requested = run.manifest.requested
    except InputDataError as error:
        where = quote(path, error.message)
        problem = LogObservation(one_line(error.message), (where,), Rank.EXCEPTION)
        if not exists:
            return problem
        run.observations.append(problem)
    return None


def _keys(run: RunReading, path: Path) -> Iterator[RolloutKey]:
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(_Key)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                key = decoder.decode(line)
            except msgspec.MsgspecError as error:
                _bad_line(run, path, number, line, error)
                continue
            yield RolloutKey(key.task, key.rollout)


def _read_scored(run: RunReading, requested: set[RolloutKey]) -> set[RolloutKey]:
    path = run.paths.output
    scored_keys: set[RolloutKey] = set()
    if not path.exists():
        return scored_keys
    decoder = msgspec.json.Decoder(ScoredRow)
    scores = ScoredRows(path)
    twice: list[Quote] = []
    strange: list[Quote] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = decoder.decode(line)
            except msgspec.MsgspecError as error:
                _bad_line(run, path, number, line, error)
                continue
            if not line.endswith(b"\n"):
                _torn(run, path, number, line)
                continue
            key = RolloutKey(row.task, row.rollout)
            if key in scored_keys:
                twice.append(quote(path, f"rollout {key} again", line=number))
            if requested and key not in requested:
                strange.append(
                    quote(path, f"rollout {key} is not in the materialized inputs", line=number)
                )
            if key not in scored_keys:
                scores.add(row, number)
            scored_keys.add(key)
    run.counts.scored = len(scored_keys)
    run.counts.truncated = scores.truncated
    run.observations += scores.observations()
    _tell_of_strangers(run, twice, strange)
    return scored_keys


def _tell_of_strangers(run: RunReading, twice: list[Quote], strange: list[Quote]) -> None:
    if twice:
        text = f"{len(twice)} rows of {run.paths.output.name} are of rollouts that it has already"
        run.observations.append(_observation("cache.duplicates", text, twice))
    if strange:
        text = (
            f"{len(strange)} rows of {run.paths.output.name} are of rollouts that its materialized "
            "inputs do not have"
        )
        run.observations.append(_observation("cache.inputs-edited", text, strange))


def _bad_line(run: RunReading, path: Path, number: int, line: bytes, error: Exception) -> None:
    if not line.endswith(b"\n"):
        _torn(run, path, number, line)
        return
    text = f"{path} line {number} is not a row of a run: {one_line(str(error))}"
    quoted = quote(path, line[:400].decode("utf-8", "replace"), line=number)
    run.observations.append(_observation("cache.broken-journal", text, [quoted]))


def _torn(run: RunReading, path: Path, number: int, line: bytes) -> None:
    if run.counts.running:
        return  # it is being written
    text = f"the last line of {path.name} is torn after {len(line)} bytes"
    quoted = quote(path, line[:200].decode("utf-8", "replace"), line=number)
    run.observations.append(_observation("cache.torn-journal", text, [quoted]))


def _read_failures(run: RunReading, scored: set[RolloutKey]) -> FailedAttempts:
    path = run.paths.failures
    if not path.exists():
        return FailedAttempts()
    failed: set[RolloutKey] = set()
    attempts = FailedAttempts()
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = orjson.loads(line)
                key = RolloutKey(row[TASK_INDEX], row[ROLLOUT_INDEX])
            except (orjson.JSONDecodeError, LookupError, TypeError) as error:
                _bad_line(run, path, number, line, error)
                continue
            run.counts.failed_attempts += 1
            attempts.note(row)
            is_last = run.is_reverified or row.get(FAILURE_TERMINAL)
            if is_last and key not in scored:
                failed.add(key)
            observation = _failure(path, number, row, recovered=key in scored)
            if run.counts.failed_attempts > MOST_QUOTED:
                observation = replace(observation, quotes=(), problems=())
            run.observations.append(observation)
    run.counts.failed = len(failed)
    return attempts


def _failure(path: Path, number: int, row: JsonObject, *, recovered: bool) -> LogObservation:
    """Return the observation of one failed attempt: the servers passed and the innermost body, in
    one line.
    """
    message = innermost(str(row.get("message", "")))
    quotes = [quote(path, message, line=number, pointer="/message")]
    hops = [hop for hop in row.get("hops") or () if isinstance(hop, Mapping)]
    body = innermost(str(hops[-1].get("body") or "")) if hops else ""
    if body and body not in message:
        pointer = f"/hops/{len(hops) - 1}/body"
        quotes.append(quote(path, body, line=number, pointer=pointer))
    quotes += _frames(str(row.get("traceback") or ""))
    if hint := own_hint(str(row.get("hint") or "")):
        quotes.append(quote(path, hint, line=number, pointer="/hint"))
    agent = row.get(AGENT_REF)
    agent_name = agent.get("name", "") if isinstance(agent, Mapping) else ""
    layer = next(
        (candidate for candidate in Layer if candidate.value == row.get(FAILURE_LAYER)), None
    )
    cause = str(row.get("cause") or "")
    return LogObservation(
        text=failure_text(hops, message),
        quotes=tuple(quotes),
        rank=Rank.ENDED if row.get(ENDED_RUN) is True else Rank.FAILURE,
        layer=layer,
        cause=cause if cause in SignatureTable.load().by_cause else "",
        row=RowIdentity(row[TASK_INDEX], row[ROLLOUT_INDEX], row.get("attempt") or 1, agent_name),
        problems=tuple(
            FieldProblem(str(p.get("pointer", "")), str(p.get("expected", "")))
            for p in row.get("problems") or ()
            if isinstance(p, Mapping)
        ),
        recovered=recovered,
        hint=hint,
        reverify=recorded_command(row),
    )


def _frames(traceback: str) -> list[Quote]:
    """Quote the innermost frame of an author's code, with the line as it is in the file now."""
    quotes: list[Quote] = []
    for text in traceback.splitlines()[-1:]:
        location, _, _ = text.partition(" in ")
        path, _, number = location.rpartition(":")
        if not number.isdecimal():
            continue
        quotes.append(quote(path, line_at(Path(path), int(number)), line=int(number)))
    return quotes


def _missing(run: RunReading) -> None:
    """Add an observation for rollouts neither scored nor failed, and for missing materialized
    inputs.
    """
    counts = run.counts
    expected = counts.requested if counts.requested is not None else counts.inputs
    inputs = run.paths.materialized_inputs
    if run.manifest is not None and not inputs.exists():
        text = f"{inputs.name} is not beside its manifest"
        manifest_quote = quote(run.paths.manifest, f"the manifest of {expected} rollouts")
        is_whole = counts.scored == expected
        run.observations.append(
            LogObservation(
                text,
                (manifest_quote,),
                Rank.EXCEPTION,
                cause="cache.inputs-gone",
                recovered=is_whole,
            )
        )
    if counts.missing:
        state = "have not ended yet" if counts.running else "are missing"
        in_flight = "" if counts.in_flight is None else f", {counts.in_flight} in flight"
        text = (
            f"{counts.missing} of {expected} requested rollouts {state}: {counts.scored} scored, "
            f"{counts.failed} failed{in_flight}"
        )
        where = run.paths.manifest if run.manifest else run.paths.materialized_inputs
        quoted = _line_with(where, '"requested"') or quote(where, f"{expected} rows")
        run.observations.append(
            LogObservation(
                text,
                (quoted,),
                Rank.LINE,
                cause="cache.running" if counts.running else "cache.unfinished",
            )
        )


def _line_with(path: Path, word: str) -> Quote | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    matching = ((n, text) for n, text in enumerate(lines, start=1) if word in text)
    return next((quote(path, text.strip(), line=n) for n, text in matching), None)


def _observation(cause: str, text: str, quotes: list[Quote]) -> LogObservation:
    return LogObservation(text, tuple(quotes[:MOST_EXAMPLES]), Rank.EXCEPTION, cause=cause)


def modified(path: Path) -> str:
    """Return when a file was last written, in UTC."""
    at = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"

"""Before the first rollout: check the existing files, the requested rows, and which rollouts
remain.

There are two steps. `plan` reads and checks, and writes only the new inputs, under a temporary
name; an error leaves an earlier run unchanged. `begin` moves the new run's files into place, or
repairs the files of the run to be continued.
"""

import contextlib
import itertools
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from palestra.config import did_you_mean
from palestra.datasets import load_prompt
from palestra.engine import Accounting, ending_in
from palestra.errors import InputDataError, KnownCause
from palestra.rollouts.expansion import Place
from palestra.rollouts.folder_lock import alone_in
from palestra.rollouts.journal import check_free, repair
from palestra.rollouts.lineage import SelectedFrom, selections
from palestra.rollouts.manifest import Manifest, ShardOf, lost_rows, read_manifest
from palestra.rollouts.materialize import Materialized, count, materialize, whole_or_absent
from palestra.rollouts.recorded import (
    AS_IT_WAS,
    REWARD,
    last_attempts,
    recorded_rows,
    scored_keys,
)
from palestra.rollouts.stale import changes, stale_run
from palestra.schema import (
    JsonDict,
    JsonObject,
    ReverifyCommand,
    RolloutKey,
    RunPaths,
    key_of,
    read_jsonl,
    run_beside,
)
from palestra.settings import CollectSettings, InputFile
from palestra.system import (
    is_gone,
    move,
    on_failure,
    process_name,
    remove_empty,
    set_aside,
    shown,
)
from palestra.transport import new_id

FORGOTTEN_AFTER_S = 86_400.0
"""The age in seconds after which another machine's unused new inputs are treated as left by a
killed command."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The state left by earlier sessions of a run: how rollouts ended, and the attempts used."""

    accounting: Accounting
    done: frozenset[RolloutKey]
    attempts: Mapping[RolloutKey, int] = field(default_factory=dict)
    """The number of failed attempts of each rollout that is still to run."""


RUN_ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that is ready to start. `notices`: messages for the user."""

    paths: RunPaths
    manifest: Manifest
    accounting: Accounting
    done: frozenset[RolloutKey]
    attempts: Mapping[RolloutKey, int] = field(default_factory=dict)
    """The number of failed attempts in earlier sessions, for rollouts still to run."""
    notices: tuple[str, ...] = ()
    made_folders: tuple[Path, ...] = ()
    """The folders created for this run, innermost first."""
    places: Mapping[int, Place] = field(default_factory=dict)
    """Task index -> the position of the task's first row in the input."""
    resumes: bool = False
    new_inputs: Path | None = None
    """The temporary path of the materialized rows; None once the run has begun."""
    made_inputs: tuple[InputFile, ...] = ()
    """Input files that the command generates; `begin` writes them."""
    found: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    """The existing files of an earlier run at planning time: path -> (inode, size)."""

    @property
    def run_id(self) -> str:
        """The run's id, sent with each call; the same for all sessions and shards of one run."""
        return self.manifest.digest[:RUN_ID_DIGITS]

    @property
    def begun(self) -> bool:
        """Whether the run's files are in place."""
        return self.new_inputs is None

    @property
    def remaining(self) -> int:
        """The number of rollouts still to run."""
        return self.manifest.requested - len(self.done)

    @property
    def inputs(self) -> Path:
        """The path of the materialized rows, which is temporary until the run has begun."""
        return self.new_inputs or self.paths.materialized_inputs

    def recording(self, reverify: ReverifyCommand) -> "PreparedRun":
        """Return the run with this command in its manifest."""
        return replace(self, manifest=replace(self.manifest, reverify=reverify))

    def rows(self) -> Iterator[JsonDict]:
        """Yield the materialized rows still to run, streamed from disk."""
        for line in read_jsonl(self.inputs):
            if key_of(line.row) not in self.done:
                yield line.row


def prepare(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: JsonObject,
    version: str,
) -> PreparedRun:
    """Call `plan` and then `begin`, for callers with no checks between the two."""
    return begin(plan(settings, agents=agents, semantics=semantics, version=version))


def plan(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: JsonObject,
    version: str,
) -> PreparedRun:
    """Materialize a run. When it continues an earlier run, find out which rollouts remain.

    Raises InputDataError: rows are bad, or existing outputs would be lost. StaleRun: the run to
    resume was made from other rows or settings.
    """
    paths = RunPaths(settings.output_jsonl_fpath)
    found_files = _found_by(settings, paths)
    _refuse_name_of_companion(paths.output)
    existing = list(found_files)
    resumes = bool(existing) and settings.resume_from_cache
    if existing and not resumes and not settings.overwrite:
        raise InputDataError(
            f"{existing[0]} exists already",
            hint="continue that run with --resume, or start again with --overwrite",
            cause=KnownCause.OUTPUT_EXISTS,
        )
    old = read_manifest(paths.manifest) if resumes else None
    new_inputs = paths.new_inputs(f"{process_name()}-{new_id()[:4]}")
    inputs = materialize(settings, new_inputs, agents=agents)
    new = _manifest(settings, inputs, semantics, version)
    fresh = PreparedRun(
        paths,
        new,
        Accounting(inputs.rollouts),
        done=frozenset(),
        made_folders=inputs.made_folders,
        places=inputs.places,
        new_inputs=new_inputs,
        made_inputs=tuple(source for source in settings.inputs if source.content is not None),
        notices=(
            *_nothing_to_resume(settings, existing),
            *_not_resumed(settings, paths),
            *map(_selected, new.selected_from),
            *_warnings(settings, inputs),
        ),
        found=found_files,
    )
    if old is None:
        return fresh
    with on_failure(lambda: new_inputs.unlink(missing_ok=True)):
        changed = changes(old, new, inputs.agents)
        if changed and settings.on_stale == "error":
            raise stale_run(old, new, changed, settings, inputs.agents)
        if changed:
            reason = ("the run was made from something else, so it starts again:", *changed)
            return replace(fresh, notices=("\n  ".join(reason), *fresh.notices))
        ended_rollouts = _read_ended(paths, inputs, settings.max_attempts)
    count = f"resuming: {len(ended_rollouts.done)} of {old.requested} rollouts have ended already"
    loss = f"warning: {lost}" if (lost := lost_rows(paths.output, old)) else ""
    return replace(
        fresh,
        manifest=old,
        accounting=ended_rollouts.accounting,
        done=ended_rollouts.done,
        attempts=ended_rollouts.attempts,
        notices=(*filter(None, (loss,)), count, *_warnings(settings, inputs)),
        resumes=True,
    )


def _refuse_name_of_companion(output: Path) -> None:
    """Raise InputDataError: the output would be a file that another run has beside its own."""
    if (run := run_beside(output)) is not None:
        raise InputDataError(
            f"{output} has the name of a file of the run {run}",
            hint="choose another output",
            cause=KnownCause.OUTPUT_EXISTS,
        )


def _nothing_to_resume(settings: CollectSettings, existing: Collection[Path]) -> Iterator[str]:
    """Yield a line when a run is to be continued that does not exist. `existing`: its files."""
    if existing or not settings.resume_from_cache:
        return
    output = settings.output_jsonl_fpath
    outputs = {
        path.name
        for path in output.parent.glob(f"*{output.suffix}")
        if RunPaths(path).manifest.exists()
    }
    yield (
        f"nothing to resume: {shown(output)} does not exist, so the run starts from the beginning"
        + did_you_mean(output.name, outputs)
    )


def _not_resumed(settings: CollectSettings, paths: RunPaths) -> Iterator[str]:
    """Yield a sentence when the run that is about to be moved aside had not ended."""
    if settings.resume_from_cache:
        return
    with contextlib.suppress(InputDataError):
        earlier = read_manifest(paths.manifest)
        if earlier.accounted < earlier.requested and _recorded(paths):
            words = settings.resume_words.format(shown(settings.output_jsonl_fpath))
            yield (
                f"the earlier run at {shown(paths.output)} had not ended: the same command with {words} "
                "goes on with such a run"
            )


def _warnings(settings: CollectSettings, inputs: Materialized) -> Iterator[str]:
    """Yield the warnings about the rows of a run."""
    if settings.limit == 0:
        yield "warning: `--limit 0` leaves no rows, so nothing runs"
    prompts = dict.fromkeys(settings.prompt_of(source) for source in settings.inputs)
    for path in filter(None, prompts):
        if warning := load_prompt(path).warning(path):
            yield f"warning: {warning}"
    yield from _rows_of_another_agent(settings, inputs)


def _rows_of_another_agent(settings: CollectSettings, inputs: Materialized) -> Iterator[str]:
    """Yield a warning when rows go to another agent than the one that the command names."""
    requested = settings.agent_name
    row_counts = inputs.rows_of_agents
    other_agents = sorted(row_counts.keys() - {requested})
    if requested is None or settings.given is not None or not other_agents:
        return
    total = sum(row_counts.values())
    count = total - row_counts.get(requested, 0)
    yield (
        f"warning: {count} of {total} rows name {', '.join(other_agents)}, by their agent_ref or "
        f"their dataset; `--agent {requested}` has no effect on them"
    )


def _selected(origin: SelectedFrom) -> str:
    return (
        f"these tasks were chosen by their rewards in {origin}: compare this run with another run of "
        "them, not with that one"
    )


def begin(planned: PreparedRun) -> PreparedRun:
    """Move the run's files into place and return the run as begun.

    Raises InputDataError: another collection is writing there, or has begun there since `plan`.
    """
    paths, new_inputs = planned.paths, planned.new_inputs
    if new_inputs is None:
        return planned
    with on_failure(lambda: discard(planned)), alone_in(paths.output.parent):
        check_free(paths.output)
        if _files_present(paths) != planned.found or not new_inputs.exists():
            raise overtaken(paths)
        notices = _mend(paths) if planned.resumes else _replace_earlier(planned)
        # Those of a run that is continued are the same, byte for byte: the digest says so.
        move(new_inputs, paths.materialized_inputs)
        _write_made(planned)
        _forget_others(paths)
    return replace(planned, notices=(*notices, *planned.notices), new_inputs=None)


def _write_made(planned: PreparedRun) -> None:
    """Write the input files that the command generates. A resumed run keeps its existing ones."""
    for source in planned.made_inputs:
        if source.content is None or (planned.resumes and source.path.exists()):
            continue
        with whole_or_absent(source.path) as (file, _):
            file.write(source.content)


def _mend(paths: RunPaths) -> tuple[str, ...]:
    """Remove incomplete last lines that a killed process left."""
    return tuple(
        f"{path}: dropped a torn last line of {dropped} bytes"
        for path in (paths.output, paths.failures)
        if (dropped := repair(path))
    )


def _replace_earlier(planned: PreparedRun) -> tuple[str, ...]:
    """Move an earlier run's files aside and write the new run's manifest."""
    paths = planned.paths
    # A disk that will not even take this must not cost the earlier run its names.
    planned.manifest.write(paths.new_manifest)
    notices = _move_aside(paths)
    move(paths.new_manifest, paths.manifest)
    return notices


def overtaken(paths: RunPaths) -> InputDataError:
    """Return the error that another collection has begun at this output first."""
    return InputDataError(
        f"another collection has begun at {paths.output} in the meantime",
        hint="choose another output, or wait for that one and go on with --resume",
        cause=KnownCause.OUTPUT_IN_USE,
    )


def discard(prepared: PreparedRun) -> bool:
    """Remove the files of a run that has recorded nothing. Return whether they were removed.

    So a failed start leaves no files. For a run that has begun, call this only while holding its
    journal, because the files may belong to another collection by now.
    """
    if prepared.new_inputs is not None:
        prepared.new_inputs.unlink(missing_ok=True)
        remove_empty(prepared.made_folders)
        return True
    if _recorded(prepared.paths):
        return False
    for path in prepared.paths.recorded():
        path.unlink(missing_ok=True)
    for source in prepared.made_inputs:
        source.path.unlink(missing_ok=True)
    remove_empty(prepared.made_folders)
    return True


def _recorded(paths: RunPaths) -> bool:
    """Whether any rollout has been recorded, as a score or a failure."""
    files = (paths.output, paths.failures)
    return any(path.exists() and path.stat().st_size for path in files)


def _files_present(paths: RunPaths) -> dict[Path, tuple[int, int]]:
    """Return the run's existing files with inode and size, which show later whether a file was
    changed.
    """
    stats = {path: path.stat() for path in paths.recorded() if path.exists()}
    return {path: (stat.st_ino, stat.st_size) for path, stat in stats.items()}


def discard_new_inputs(output: Path) -> None:
    """Delete the temporary inputs of this process, which ends while it still writes them."""
    prefix = RunPaths(output).new_inputs(process_name()).name
    with contextlib.suppress(OSError):
        for path in output.parent.iterdir():
            if path.name.startswith(prefix):
                path.unlink()


def _forget_others(paths: RunPaths) -> None:
    """Delete temporary files of commands that were killed between `plan` and `begin`."""
    with contextlib.suppress(OSError):
        paths.new_manifest.unlink()
    # Not by a pattern: an output's name may look like one.
    prefix = paths.new_inputs("").name
    for path in paths.output.parent.iterdir():
        if not path.name.startswith(prefix):
            continue
        with contextlib.suppress(OSError):
            is_old = time.time() - path.stat().st_mtime > FORGOTTEN_AFTER_S
            if is_old or is_gone(path.name.removeprefix(prefix)):
                path.unlink()


def _manifest(
    settings: CollectSettings, inputs: Materialized, semantics: JsonObject, version: str
) -> Manifest:
    shard = None
    if settings.shard is not None:
        share = settings.shard
        shard = ShardOf(share.index, share.of, inputs.run_rollouts, inputs.run_tasks)
    paths = [source.path for source in settings.inputs]
    return Manifest(
        inputs.input_digest,
        semantics,
        inputs.rollouts,
        inputs.tasks,
        version,
        shard=shard,
        inputs=tuple(map(str, paths)),
        command=settings.command,
        code=settings.given.code if settings.given is not None else "",
        started_at=round(time.time(), 3),
        selected_from=tuple(selections((*settings.source_files, *paths))),
        limit=settings.limit,
    )


def _found_by(settings: CollectSettings, paths: RunPaths) -> dict[Path, tuple[int, int]]:
    """Return the run's existing files. Raises InputDataError: the output cannot be written."""
    try:
        _check_places(settings, paths)
        if paths.output.parent.is_dir():
            with alone_in(paths.output.parent):
                check_free(paths.output)
        return _files_present(paths)
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise InputDataError(
            f"cannot write {paths.output}: {error.strerror}", hint="choose another output"
        ) from error


def _check_places(settings: CollectSettings, paths: RunPaths) -> None:
    """Raise InputDataError: the run would overwrite its own input, or a folder."""
    for path in paths.recorded():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="choose another name for the output")
        sources = (*(source.path for source in settings.inputs), *settings.source_files)
        if path.resolve() in {source.resolve() for source in sources}:
            raise InputDataError(
                f"the run would write {path}, which is its input", hint="choose another output"
            )


def _move_aside(paths: RunPaths) -> tuple[str, ...]:
    """Rename an earlier run's files to backup names.

    The manifest is renamed first, so that a half-moved run does not look like one that has recorded
    nothing. The scored rows are renamed last, so that the next start still moves the remaining
    files. The files of a run that has recorded nothing are deleted instead, so they never replace
    an earlier `.bak`.
    """
    other_files = (paths.materialized_inputs, paths.aggregate_metrics, *paths.derived())
    ordered = (paths.manifest, *other_files, paths.failures, paths.output)
    existing = [path for path in ordered if path.exists()]
    if not existing:
        return ()
    if not _recorded(paths):
        for path in existing:
            path.unlink()
        return ("removed the files of an earlier run that had recorded nothing",)
    suffix = _free_suffix(existing)
    set_aside(existing, suffix)
    return (f"moved {len(existing)} files of an earlier run to <name>{suffix}",)


def _free_suffix(paths: Collection[Path]) -> str:
    """Return the first suffix of `.bak`, `.bak2` and so on that is free for all `paths`.

    So files that a killed process left half-moved get the same suffix as the rest.
    """
    for number in itertools.count(1):
        suffix = ".bak" if number == 1 else f".bak{number}"
        if not any(path.with_name(path.name + suffix).exists() for path in paths):
            return suffix
    raise AssertionError


def intended(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: JsonObject,
    version: str,
) -> tuple[Manifest, tuple[str, ...]]:
    """Return the manifest of the run that `settings` would start, and the agents that its rows name.

    Nothing is written. Raises InputDataError: rows are bad.
    """
    inputs = count(settings, agents=agents)
    return _manifest(settings, inputs, semantics, version), inputs.agents


def unfinished_rollouts(paths: RunPaths, *, requested: int, max_attempts: int) -> int:
    """Return how many rollouts a resumed run would run. Raises InputDataError: a file is broken."""
    scored = scored_keys(paths.output)
    ended_keys = {
        key for key, last in last_attempts(paths.failures).items() if last.ended(max_attempts)
    }
    return requested - len(scored | ended_keys)


def why_not_writable(paths: RunPaths) -> str:
    """Return why no collection can write to the output now (another process does); empty when one
    can.
    """
    try:
        with alone_in(paths.output.parent):
            check_free(paths.output)
    except InputDataError as error:
        return error.message
    return ""


def _read_ended(paths: RunPaths, inputs: Materialized, max_attempts: int) -> Ended:
    """Read which rollouts of a run were scored, failed for good, or get another attempt."""
    accounting = Accounting(inputs.rollouts)
    scored_keys = _scored(paths.output, accounting, inputs.repeats)
    attempts: dict[RolloutKey, int] = {}
    failures = paths.failures
    own_key = partial(_own_key, path=failures, repeats=inputs.repeats)
    for key, last in last_attempts(failures, own_key).items():
        if key in scored_keys:
            continue
        if last.ended(max_attempts):
            scored_keys.add(key)
            accounting.fail(last.outcome)
        else:
            attempts[key] = last.number
    return Ended(accounting, frozenset(scored_keys), attempts)


def _own_key(row: JsonDict, *, path: Path, repeats: Mapping[int, int]) -> RolloutKey:
    """Return the key of a recorded row. Raises InputDataError: the rollout is not part of this run."""
    key = key_of(row)
    if not 0 <= key.rollout < repeats.get(key.task, 0):
        raise InputDataError(
            f"{path} has a row of rollout {key} (task:rollout), which is not part of this run",
            hint=AS_IT_WAS,
        )
    return key


def _scored(path: Path, accounting: Accounting, repeats: Mapping[int, int]) -> set[RolloutKey]:
    """Return the rollouts with a reward, and count each in `accounting`."""
    scored_keys: set[RolloutKey] = set()
    for row in recorded_rows(path, REWARD):
        key = _own_key(row, path=path, repeats=repeats)
        if key not in scored_keys:
            scored_keys.add(key)
            accounting.score(ending_in(row, float(row["reward"])), key)
    return scored_keys

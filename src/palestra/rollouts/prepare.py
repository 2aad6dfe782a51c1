"""Before the first rollout: what exists on disk, what is asked for, and what remains to run.

In two steps. `plan` reads and checks, and writes nothing but the new inputs under a name of their
own; whatever is wrong, an earlier run stays as it is. `begin` puts the files of the new run in
place, or mends those of the run to be continued.
"""

import contextlib
import itertools
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from palestra.engine import Accounting, ending_in
from palestra.errors import InputDataError, KnownCause, Layer
from palestra.rollouts.expansion import Place
from palestra.rollouts.folder_lock import alone_in
from palestra.rollouts.journal import check_free, repair
from palestra.rollouts.manifest import Manifest, ShardOf, differences, read_manifest
from palestra.rollouts.materialize import Materialized, count, materialize, whole_or_absent
from palestra.rollouts.recorded import (
    AS_IT_WAS,
    REWARD,
    last_attempts,
    recorded_rows,
    scored_keys,
)
from palestra.rollouts.results import has_answers, reverify_command
from palestra.schema import JsonDict, JsonObject, RolloutKey, RunPaths, key_of, read_jsonl
from palestra.settings import CollectSettings, InputFile
from palestra.system import is_gone, move, on_failure, process_name, remove_empty, set_aside
from palestra.transport import new_id

FORGOTTEN_AFTER_S = 86_400.0
"""New inputs that another machine has not begun with for so long belong to a killed command."""


_OTHER_ROWS: Final = "the input rows differ"


class StaleRun(InputDataError):
    """What is on disk was made from something else than what is asked for now."""

    layer = Layer.CACHE
    cause = KnownCause.SETTINGS_CHANGED


@dataclass(frozen=True, slots=True)
class Ended:
    """What earlier sessions of a run left: how it ended for whom, and attempts spent."""

    accounting: Accounting
    done: frozenset[RolloutKey]
    attempts: Mapping[RolloutKey, int] = field(default_factory=dict)
    """Failed attempts of rollouts that are still to run."""


RUN_ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can start. `notices` are for the user to read."""

    paths: RunPaths
    manifest: Manifest
    accounting: Accounting
    done: frozenset[RolloutKey]
    attempts: Mapping[RolloutKey, int] = field(default_factory=dict)
    """Failed attempts in earlier sessions of rollouts that are still to run."""
    notices: tuple[str, ...] = ()
    made_folders: tuple[Path, ...] = ()
    """Folders that exist for this run alone, innermost first."""
    places: Mapping[int, Place] = field(default_factory=dict)
    """Task index -> where its first row stands in the input."""
    resumes: bool = False
    new_inputs: Path | None = None
    """The materialized rows while they are not in place; None once the run has begun."""
    made_inputs: tuple[InputFile, ...] = ()
    """Input files that the command makes; they are written when the run begins."""
    found: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    """Files of an earlier run that were there at planning: inode and size."""

    @property
    def run_id(self) -> str:
        """Which run a call is made for: the same for all sessions and shards of one run."""
        return self.manifest.digest[:RUN_ID_DIGITS]

    @property
    def begun(self) -> bool:
        """Whether the run's files are in place."""
        return self.new_inputs is None

    @property
    def remaining(self) -> int:
        """Rollouts still to run."""
        return self.manifest.requested - len(self.done)

    @property
    def inputs(self) -> Path:
        """The materialized rows: under a name of their own until the run has begun."""
        return self.new_inputs or self.paths.materialized_inputs

    def rows(self) -> Iterator[JsonDict]:
        """The materialized rows still to run, streamed from disk."""
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
    """`plan` and `begin` in one, where nothing can go wrong between the two."""
    return begin(plan(settings, agents=agents, semantics=semantics, version=version))


def plan(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: JsonObject,
    version: str,
) -> PreparedRun:
    """Materialize a run, and find out what it still needs when it is to be continued.

    Raises InputDataError for bad rows and for outputs that would be lost, StaleRun when a run to
    be resumed was made from something else.
    """
    paths = RunPaths(settings.output_jsonl_fpath)
    found_files = _found_by(settings, paths)
    existing = list(found_files)
    resumes = bool(existing) and settings.resume_from_cache
    if existing and not resumes and not settings.overwrite:
        raise InputDataError(
            f"{existing[0]} exists already",
            hint="continue that run with resume_from_cache (--resume), or --overwrite it",
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
        found=found_files,
        notices=inputs.notices,
    )
    if old is None:
        return fresh
    with on_failure(lambda: new_inputs.unlink(missing_ok=True)):
        changed = changes(old, new)
        if changed and settings.on_stale == "error":
            raise StaleRun(
                f"the run at {paths.output} was made from something else:\n  "
                + "\n  ".join(changed),
                hint="give back what was changed; or start again: --on-stale restart (or "
                "--overwrite) moves that run to <name>.bak" + _kept_answers(paths, settings),
                cause=KnownCause.STALE_INPUTS if _OTHER_ROWS in changed else None,
            )
        if changed:
            reason = ("the run was made from something else, so it starts again:", *changed)
            return replace(fresh, notices=(*inputs.notices, "\n  ".join(reason)))
        ended_rollouts = _ended(paths, inputs, settings.max_attempts)
    count = f"resuming: {len(ended_rollouts.done)} of {old.requested} rollouts have ended already"
    return replace(
        fresh,
        manifest=old,
        accounting=ended_rollouts.accounting,
        done=ended_rollouts.done,
        attempts=ended_rollouts.attempts,
        notices=(*inputs.notices, count),
        resumes=True,
    )


def begin(planned: PreparedRun) -> PreparedRun:
    """Put the run's files in place, and return it as one that has begun.

    Raises InputDataError when another collection is writing there, or has begun since the plan.
    """
    paths, new_inputs = planned.paths, planned.new_inputs
    if new_inputs is None:
        return planned
    with on_failure(lambda: discard(planned)), alone_in(paths.output.parent):
        check_free(paths.output)
        if _found(paths) != planned.found or not new_inputs.exists():
            raise overtaken(paths)
        notices = _mend(paths) if planned.resumes else _replace_earlier(planned)
        # Those of a run that is continued are the same, byte for byte: the digest says so.
        move(new_inputs, paths.materialized_inputs)
        _write_made(planned)
        _forget_others(paths)
    return replace(planned, notices=(*notices, *planned.notices), new_inputs=None)


def _write_made(planned: PreparedRun) -> None:
    """Write the input files that the command made; a run that goes on keeps those it has."""
    for source in planned.made_inputs:
        if source.content is None or (planned.resumes and source.path.exists()):
            continue
        with whole_or_absent(source.path) as (file, _):
            file.write(source.content)


def _mend(paths: RunPaths) -> tuple[str, ...]:
    """Drop what a kill has torn."""
    return tuple(
        f"{path}: dropped a torn last line of {dropped} bytes"
        for path in (paths.output, paths.failures)
        if (dropped := repair(path))
    )


def _replace_earlier(planned: PreparedRun) -> tuple[str, ...]:
    """Move an earlier run aside and put the manifest of the new one in its place."""
    paths = planned.paths
    # A disk that will not even take this must not cost the earlier run its names.
    planned.manifest.write(paths.new_manifest)
    notices = _move_aside(paths)
    move(paths.new_manifest, paths.manifest)
    return notices


def overtaken(paths: RunPaths) -> InputDataError:
    """Another collection came first."""
    return InputDataError(
        f"another collection has begun at {paths.output} in the meantime",
        hint="choose another output, or wait for that one and --resume it",
        cause=KnownCause.OUTPUT_IN_USE,
    )


def discard(prepared: PreparedRun) -> bool:
    """Remove a run that never recorded anything; whether it was one.

    So a start that failed leaves nothing behind. Of a run that has begun only whoever holds its
    journal may say so: its files may be somebody else's by now.
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
    """Whether any rollout has left anything."""
    files = (paths.output, paths.failures)
    return any(path.exists() and path.stat().st_size for path in files)


def _found(paths: RunPaths) -> dict[Path, tuple[int, int]]:
    """Which files of a run are there, and enough of each to see that it is still the same."""
    stats = {path: path.stat() for path in paths.recorded() if path.exists()}
    return {path: (stat.st_ino, stat.st_size) for path, stat in stats.items()}


def _forget_others(paths: RunPaths) -> None:
    """Remove what commands that were killed while they planned have left here."""
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
    return Manifest(
        inputs.input_digest,
        semantics,
        inputs.rollouts,
        inputs.tasks,
        version,
        shard=shard,
        inputs=tuple(str(source.path) for source in settings.inputs),
    )


def _found_by(settings: CollectSettings, paths: RunPaths) -> dict[Path, tuple[int, int]]:
    """The run's files that are there. Raises InputDataError where none may be written."""
    try:
        _check_places(settings, paths)
        if paths.output.parent.is_dir():
            with alone_in(paths.output.parent):
                check_free(paths.output)
        return _found(paths)
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise InputDataError(
            f"cannot write {paths.output}: {error.strerror}", hint="choose another output"
        ) from error


def _check_places(settings: CollectSettings, paths: RunPaths) -> None:
    """Raise InputDataError when the run would write over its own input, or over a folder."""
    for path in paths.recorded():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="give the output a name of its own")
        if path.resolve() in {source.path.resolve() for source in settings.inputs}:
            raise InputDataError(
                f"the run would write {path}, which is its input", hint="choose another output"
            )


def _move_aside(paths: RunPaths) -> tuple[str, ...]:
    """Keep an earlier run's files under another name.

    The manifest goes first, so that what a kill in between leaves is not taken for a run that
    has recorded nothing; scored rows go last, so that the rest still follows them next time. A
    run that has recorded nothing never takes the place of an earlier `.bak`.
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
    """`.bak`, or `.bak2` and so on: the first under which none of `paths` is kept already.

    What a kill has left half moved thus ends under the suffix it began with.
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
) -> Manifest:
    """The manifest of the run that `settings` would begin. Nothing is written.

    Raises InputDataError for bad rows.
    """
    return _manifest(settings, count(settings, agents=agents), semantics, version)


def unfinished_rollouts(paths: RunPaths, *, requested: int, max_attempts: int) -> int:
    """How many rollouts resuming would run. Raises InputDataError for a broken file."""
    scored = scored_keys(paths.output)
    ended_keys = {
        key for key, last in last_attempts(paths.failures).items() if last.ended(max_attempts)
    }
    return requested - len(scored | ended_keys)


def why_not_writable(paths: RunPaths) -> str:
    """Why no collection can write there now: another process does. Empty when one can."""
    try:
        with alone_in(paths.output.parent):
            check_free(paths.output)
    except InputDataError as error:
        return error.message
    return ""


def changes(old: Manifest, new: Manifest) -> list[str]:
    """What a run to be continued was made from and is not any more, one line each."""
    changed = differences(old.semantics, new.semantics)
    if old.input_digest != new.input_digest:
        changed.insert(0, _OTHER_ROWS)
    if old.version != new.version:
        changed.append(f"Palestra's version: {old.version} -> {new.version}")
    if _share_of(old) != _share_of(new):
        changed.append(f"shard: {_share_of(old)} -> {_share_of(new)}")
    if old.requested != new.requested:
        changed.append(f"rollouts requested: {old.requested} -> {new.requested}")
    return changed


def _share_of(manifest: Manifest) -> str:
    return f"{manifest.shard.index}/{manifest.shard.of}" if manifest.shard else "the whole run"


def _kept_answers(paths: RunPaths, settings: CollectSettings) -> str:
    """How the answers of a stale run are scored by what has changed, when it has any."""
    scored = paths.output.exists() and paths.output.stat().st_size > 0
    if not (scored or has_answers(paths.failures)):
        return ""
    reverify = reverify_command(paths.output, settings.verified_by)
    return f"; what the model has answered already, {reverify} verifies as things are now"


def _ended(paths: RunPaths, inputs: Materialized, max_attempts: int) -> Ended:
    """What the files of a run say: scored, failed for good, or worth another attempt."""
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
    """Which rollout of this run a recorded row is of. Raises InputDataError when it is of none."""
    key = key_of(row)
    if not 0 <= key.rollout < repeats.get(key.task, 0):
        raise InputDataError(
            f"{path} has a row of rollout {key} (task:rollout), which this run has not",
            hint=AS_IT_WAS,
        )
    return key


def _scored(path: Path, accounting: Accounting, repeats: Mapping[int, int]) -> set[RolloutKey]:
    """Rollouts with a reward; the accounting gets them."""
    scored_keys: set[RolloutKey] = set()
    for row in recorded_rows(path, REWARD):
        key = _own_key(row, path=path, repeats=repeats)
        if key not in scored_keys:
            scored_keys.add(key)
            accounting.score(ending_in(row, float(row["reward"])))
    return scored_keys

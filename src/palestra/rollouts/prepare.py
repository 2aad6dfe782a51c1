"""Before the first rollout: what exists on disk, what is asked for, and what remains to run.

In two steps. `plan` reads and checks, and writes nothing but the new inputs under a name of their
own; whatever is wrong, an earlier run stays as it is. `begin` puts the files of the new run in
place, or mends those of the run to be continued.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from palestra.errors import InputDataError, Layer
from palestra.rollouts.accounting import Accounting
from palestra.rollouts.expansion import Place
from palestra.rollouts.journal import check_free, repair
from palestra.rollouts.manifest import Manifest, ShardOf, differences, read_manifest
from palestra.rollouts.materialize import Materialized, materialize, remove_empty
from palestra.rollouts.recorded import (
    AS_IT_WAS,
    REWARD,
    outcome_of,
    output_tokens_of,
    recorded_rows,
)
from palestra.rollouts.results import WORTH_ANOTHER_ATTEMPT
from palestra.rollouts.settings import CollectSettings, RunPaths
from palestra.schema import FAILURE_CLASS, Outcome, RolloutKey, key_of, read_jsonl

FOLDER_WAIT_S = 30.0


class StaleRun(InputDataError):
    """What is on disk was made from something else than what is asked for now."""

    layer = Layer.CACHE


@dataclass(frozen=True, slots=True)
class Ended:
    """What earlier sessions of a run left: how it ended for whom, and attempts spent."""

    accounting: Accounting
    done: frozenset[RolloutKey]
    attempts: Mapping[RolloutKey, int] = field(default_factory=dict)
    """Failed attempts of rollouts that are still to run."""


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
    begun: bool = False
    """Whether the run's files are in place."""

    @property
    def remaining(self) -> int:
        """Rollouts still to run."""
        return self.manifest.requested - len(self.done)

    @property
    def inputs(self) -> Path:
        """The materialized rows: under a name of their own until the run has begun."""
        return self.paths.materialized_inputs if self.begun else self.paths.new_inputs

    def rows(self) -> Iterator[dict[str, Any]]:
        """The materialized rows still to run, streamed from disk."""
        for line in read_jsonl(self.inputs):
            if key_of(line.row) not in self.done:
                yield line.row


def prepare(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: Mapping[str, Any],
    version: str,
) -> PreparedRun:
    """`plan` and `begin` in one, where nothing can go wrong between the two."""
    planned = plan(settings, agents=agents, semantics=semantics, version=version)
    try:
        return begin(planned)
    except BaseException:
        discard(planned)
        raise


def plan(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: Mapping[str, Any],
    version: str,
) -> PreparedRun:
    """Materialize a run, and find out what it still needs when it is to be continued.

    Raises InputDataError for bad rows and for outputs that would be lost, StaleRun when a run to
    be resumed was made from something else.
    """
    paths = RunPaths(settings.output_jsonl_fpath)
    existing = _existing(settings, paths)
    resumes = bool(existing) and settings.resume_from_cache
    if existing and not resumes and not settings.overwrite:
        raise InputDataError(
            f"{existing[0]} exists already",
            hint="continue that run with resume_from_cache (--resume), or --overwrite it",
        )
    old = read_manifest(paths.manifest) if resumes else None
    made = materialize(settings, paths.new_inputs, agents=agents)
    new = _manifest(settings, made, semantics, version)
    fresh = PreparedRun(
        paths,
        new,
        Accounting(made.rollouts),
        done=frozenset(),
        made_folders=made.made_folders,
        places=made.places,
    )
    if old is None:
        return fresh
    try:
        changed = _changes(old, new)
        if changed and settings.on_stale == "error":
            raise StaleRun(
                f"the run at {paths.output} was made from something else:\n  "
                + "\n  ".join(changed),
                hint="give back what was changed; or start again: --on-stale restart (or "
                "--overwrite) moves that run to <name>.bak",
            )
        if changed:
            told = ("the run was made from something else, so it starts again:", *changed)
            return replace(fresh, notices=("\n  ".join(told),))
        ended = _ended(paths, made, settings.max_attempts)
    except BaseException:
        paths.new_inputs.unlink(missing_ok=True)
        raise
    count = f"resuming: {len(ended.done)} of {old.requested} rollouts have ended already"
    return replace(
        fresh,
        manifest=old,
        accounting=ended.accounting,
        done=ended.done,
        attempts=ended.attempts,
        notices=(count,),
        resumes=True,
    )


def begin(planned: PreparedRun) -> PreparedRun:
    """Put the run's files in place, and return it as one that has begun.

    Raises InputDataError when another collection is writing there.
    """
    paths = planned.paths
    with _alone_in(paths.output.parent):
        check_free(paths.output)
        if planned.resumes:
            notices = tuple(
                f"{path}: dropped a torn last line of {dropped} bytes"
                for path in (paths.output, paths.failures)
                if (dropped := repair(path))
            )
        else:
            # A disk that will not even take this must not cost the earlier run its names.
            planned.manifest.write(paths.new_manifest)
            earlier = [*paths.all(), *paths.derived()]
            notices = _move_aside([path for path in earlier if path.exists()])
            paths.new_manifest.replace(paths.manifest)
        # Those of a run that is continued are the same, byte for byte: the digest says so.
        paths.new_inputs.replace(paths.materialized_inputs)
    return replace(planned, notices=(*notices, *planned.notices), begun=True)


def discard(prepared: PreparedRun) -> bool:
    """Remove a run that never recorded anything; whether it was one.

    So a start that failed leaves nothing behind.
    """
    if not prepared.begun:
        for path in (prepared.paths.new_inputs, prepared.paths.new_manifest):
            path.unlink(missing_ok=True)
        remove_empty(prepared.made_folders)
        return True
    recorded = (prepared.paths.output, prepared.paths.failures)
    if any(path.exists() and path.stat().st_size for path in recorded):
        return False
    for path in prepared.paths.all():
        path.unlink(missing_ok=True)
    remove_empty(prepared.made_folders)
    return True


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other collections from moving files in `folder` meanwhile; waits a bounded time.

    Not every file system has such locks; where it has none, the journal's own is what is left.
    """
    held = os.open(folder, os.O_RDONLY)
    deadline = time.monotonic() + FOLDER_WAIT_S
    try:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputDataError(
                        f"another collection has been starting in {folder} for "
                        f"{FOLDER_WAIT_S:.0f} s",
                        hint="stop that one, or choose another output",
                    ) from None
                time.sleep(0.05)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(held)


def _manifest(
    settings: CollectSettings, made: Materialized, semantics: Mapping[str, Any], version: str
) -> Manifest:
    shard = None
    if settings.shard is not None:
        share = settings.shard
        shard = ShardOf(share.index, share.of, made.run_rollouts, made.run_tasks)
    return Manifest(
        made.input_digest,
        semantics,
        made.rollouts,
        made.tasks,
        version,
        shard=shard,
    )


def _existing(settings: CollectSettings, paths: RunPaths) -> list[Path]:
    """The run's files that are there. Raises InputDataError where none may be written."""
    try:
        _check_places(settings, paths)
        check_free(paths.output)
        return [path for path in paths.all() if path.exists()]
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise InputDataError(
            f"cannot write {paths.output}: {error.strerror}", hint="choose another output"
        ) from error


def _check_places(settings: CollectSettings, paths: RunPaths) -> None:
    """Raise InputDataError when the run would write over its own input, or over a folder."""
    for path in paths.all():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="give the output a name of its own")
        if path.resolve() in {source.path.resolve() for source in settings.inputs}:
            raise InputDataError(
                f"the run would write {path}, which is its input", hint="choose another output"
            )


def _move_aside(existing: list[Path]) -> tuple[str, ...]:
    """Keep an earlier run's files under another name."""
    if not existing:
        return ()
    for path in existing:
        path.replace(path.with_name(path.name + ".bak"))
    return (f"moved {len(existing)} files of an earlier run to <name>.bak",)


def _changes(old: Manifest, new: Manifest) -> list[str]:
    """What a run to be continued was made from and is not any more, one line each."""
    changed = differences(old.semantics, new.semantics)
    if old.input_digest != new.input_digest:
        changed.insert(0, "the input rows differ")
    if old.version != new.version:
        changed.append(f"Palestra's version: {old.version} -> {new.version}")
    if _share_of(old) != _share_of(new):
        changed.append(f"shard: {_share_of(old)} -> {_share_of(new)}")
    if old.requested != new.requested:
        changed.append(f"rollouts requested: {old.requested} -> {new.requested}")
    return changed


def _share_of(manifest: Manifest) -> str:
    return f"{manifest.shard.index}/{manifest.shard.of}" if manifest.shard else "the whole run"


def _ended(paths: RunPaths, made: Materialized, max_attempts: int) -> Ended:
    """What the files of a run say: scored, failed for good, or worth another attempt."""
    accounting = Accounting(made.rollouts)
    done = _scored(paths.output, accounting, made.repeats)
    attempts: dict[RolloutKey, int] = {}
    for key, (failures, outcome) in _failures(paths.failures, made.repeats).items():
        if key in done:
            continue
        if outcome in WORTH_ANOTHER_ATTEMPT and failures < max_attempts:
            attempts[key] = failures
        else:
            done.add(key)
            accounting.fail(outcome)
    return Ended(accounting, frozenset(done), attempts)


def _own_key(row: dict[str, Any], path: Path, repeats: Mapping[int, int]) -> RolloutKey:
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
    done: set[RolloutKey] = set()
    for row in recorded_rows(path, REWARD):
        key = _own_key(row, path, repeats)
        if key not in done:
            done.add(key)
            accounting.score(outcome_of(row), float(row["reward"]), output_tokens_of(row))
    return done


def _failures(path: Path, repeats: Mapping[int, int]) -> dict[RolloutKey, tuple[int, Outcome]]:
    """Per rollout: how many attempts have failed, and how the last one did."""
    found: dict[RolloutKey, tuple[int, Outcome]] = {}
    for row in recorded_rows(path, FAILURE_CLASS):
        key = _own_key(row, path, repeats)
        before, _ = found.get(key, (0, None))
        found[key] = (before + 1, Outcome(row[FAILURE_CLASS]))
    return found

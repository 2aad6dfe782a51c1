"""Before the first rollout: what exists on disk, what is asked for, and what remains to run."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palestra.errors import InputDataError, Layer
from palestra.rollouts.accounting import Accounting
from palestra.rollouts.journal import check_free, repair
from palestra.rollouts.manifest import Manifest, differences, read_manifest
from palestra.rollouts.materialize import materialize, remove_empty
from palestra.rollouts.results import WORTH_ANOTHER_ATTEMPT
from palestra.rollouts.settings import CollectSettings, RunPaths
from palestra.schema import (
    FAILURE_CLASS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    Outcome,
    RolloutKey,
    key_of,
    read_jsonl,
)


class StaleRun(InputDataError):
    """What is on disk was made from something else than what is asked for now."""

    layer = Layer.CACHE


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

    @property
    def remaining(self) -> int:
        """Rollouts still to run."""
        return self.manifest.requested - len(self.done)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The materialized rows still to run, streamed from disk."""
        for line in read_jsonl(self.paths.materialized_inputs):
            if key_of(line.row) not in self.done:
                yield line.row


def prepare(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: Mapping[str, Any],
    version: str,
) -> PreparedRun:
    """Materialize a fresh run, or find out what a run to be resumed still needs.

    Raises InputDataError for bad rows and for outputs that would be lost, StaleRun when a run to
    be resumed was made from something else.
    """
    paths = RunPaths(settings.output_jsonl_fpath)
    _check_places(settings, paths)
    check_free(paths.output)
    existing = [path for path in paths.all() if path.exists()]
    if existing and settings.resume_from_cache:
        return _resume(settings, paths, agents=agents, semantics=semantics, version=version)
    if existing and not settings.overwrite:
        raise InputDataError(
            f"{existing[0]} exists already",
            hint="continue that run with resume_from_cache (--resume), or --overwrite it",
        )
    made = materialize(settings, paths.new_inputs, agents=agents)
    manifest = Manifest(made.input_digest, semantics, made.rollouts, made.tasks, version)
    try:
        # Only now, when nothing can be wrong with the new run any more.
        notices = _move_aside(existing)
        manifest.write(paths.manifest)
        made.path.replace(paths.materialized_inputs)
    except BaseException:
        with contextlib.suppress(OSError):
            made.path.unlink()
        remove_empty(made.made_folders)
        raise
    return PreparedRun(
        paths,
        manifest,
        Accounting(made.rollouts),
        done=frozenset(),
        notices=notices,
        made_folders=made.made_folders,
    )


def discard(prepared: PreparedRun) -> bool:
    """Remove a run that never recorded anything; whether it was one.

    So a start that failed leaves nothing behind.
    """
    recorded = (prepared.paths.output, prepared.paths.failures)
    if any(path.exists() and path.stat().st_size for path in recorded):
        return False
    for path in prepared.paths.all():
        path.unlink(missing_ok=True)
    remove_empty(prepared.made_folders)
    return True


def _check_places(settings: CollectSettings, paths: RunPaths) -> None:
    """Raise InputDataError when the run would write over its own input, or over a folder."""
    for path in paths.all():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="give the output a name of its own")
        if path.resolve() == settings.input_jsonl_fpath.resolve():
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


def _resume(
    settings: CollectSettings,
    paths: RunPaths,
    *,
    agents: Collection[str],
    semantics: Mapping[str, Any],
    version: str,
) -> PreparedRun:
    old = read_manifest(paths.manifest)
    made = materialize(settings, paths.new_inputs, agents=agents)
    try:
        new = Manifest(made.input_digest, semantics, made.rollouts, made.tasks, version)
        if old.digest != new.digest or old.requested != new.requested:
            raise StaleRun(
                f"the run at {paths.output} was made from something else:\n  "
                + "\n  ".join(_changes(old, new)),
                hint="start again with --overwrite, or give back what was changed",
            )
        # Also over those that are there: a crash of the machine may have cut them.
        made.path.replace(paths.materialized_inputs)
    finally:
        made.path.unlink(missing_ok=True)
    notices = [
        f"{path}: dropped a torn last line of {dropped} bytes"
        for path in (paths.output, paths.failures)
        if (dropped := repair(path))
    ]
    accounting = Accounting(old.requested)
    done = _scored(paths.output, accounting)
    attempts: dict[RolloutKey, int] = {}
    for key, (failures, outcome) in _failures(paths.failures).items():
        if key in done:
            continue
        if outcome in WORTH_ANOTHER_ATTEMPT and failures < settings.max_attempts:
            attempts[key] = failures
        else:
            done.add(key)
            accounting.fail(outcome)
    notices.append(f"resuming: {len(done)} of {old.requested} rollouts have ended already")
    return PreparedRun(paths, old, accounting, frozenset(done), attempts, tuple(notices))


def _changes(old: Manifest, new: Manifest) -> list[str]:
    changed = differences(old.semantics, new.semantics)
    if old.input_digest != new.input_digest:
        changed.insert(0, "the input rows differ")
    if old.requested != new.requested:
        changed.append(f"rollouts requested: {old.requested} -> {new.requested}")
    return changed


def _scored(path: Path, accounting: Accounting) -> set[RolloutKey]:
    """Rollouts with a reward; the accounting gets them."""
    done: set[RolloutKey] = set()
    for row in _recorded(path, "reward"):
        key = key_of(row)
        if key not in done:
            done.add(key)
            accounting.score(_outcome(row), float(row["reward"]), _tokens(row))
    return done


def _failures(path: Path) -> dict[RolloutKey, tuple[int, Outcome]]:
    """Per rollout: how many attempts have failed, and how the last one did."""
    found: dict[RolloutKey, tuple[int, Outcome]] = {}
    for row in _recorded(path, FAILURE_CLASS):
        key = key_of(row)
        before, _ = found.get(key, (0, None))
        found[key] = (before + 1, Outcome(row[FAILURE_CLASS]))
    return found


def _recorded(path: Path, field_name: str) -> Iterator[dict[str, Any]]:
    """Rows of one of a run's files. Raises InputDataError for a line that no run wrote."""
    if not path.exists():
        return
    needed = {TASK_INDEX, ROLLOUT_INDEX, field_name}
    for line in read_jsonl(path):
        if not isinstance(line.row, dict) or needed - line.row.keys():
            raise InputDataError(
                f"{path} line {line.number} is not a row of a run: "
                + (line.error or f"it needs {', '.join(sorted(needed))}"),
                hint="give back the file as it was, or start again with --overwrite",
            )
        yield line.row


def _outcome(row: Mapping[str, Any]) -> Outcome:
    details = (row.get("response") or {}).get("incomplete_details") or {}
    cut = details.get("reason") == "max_output_tokens"
    return Outcome.TRUNCATED if cut else Outcome.SCORED


def _tokens(row: Mapping[str, Any]) -> int:
    usage = (row.get("response") or {}).get("usage") or {}
    return int(usage.get("output_tokens") or 0)

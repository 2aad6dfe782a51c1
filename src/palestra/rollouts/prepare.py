"""Before the first rollout: what exists on disk, what is asked for, and what remains to run."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.errors import InputDataError, Layer
from palestra.rollouts.accounting import Accounting
from palestra.rollouts.journal import repair
from palestra.rollouts.manifest import Manifest, differences, read_manifest
from palestra.rollouts.materialize import materialize
from palestra.rollouts.settings import CollectSettings, RunPaths
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
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
    notices: tuple[str, ...] = ()

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
    if settings.resume_from_cache and paths.manifest.exists():
        return _resume(settings, paths, agents=agents, semantics=semantics, version=version)
    notices = _make_way(paths, overwrite=settings.overwrite)
    made = materialize(settings, paths.materialized_inputs, agents=agents)
    manifest = Manifest(made.input_digest, semantics, made.rollouts, made.tasks, version)
    manifest.write(paths.manifest)
    return PreparedRun(paths, manifest, Accounting(made.rollouts), frozenset(), notices)


def discard(prepared: PreparedRun) -> None:
    """Remove a run that never recorded anything, so that a failed start leaves nothing behind."""
    recorded = (prepared.paths.output, prepared.paths.failures)
    if any(path.exists() and path.stat().st_size for path in recorded):
        return
    for path in prepared.paths.all():
        path.unlink(missing_ok=True)


def _make_way(paths: RunPaths, *, overwrite: bool) -> tuple[str, ...]:
    """Move an earlier run's files aside, or refuse."""
    existing = [path for path in paths.all() if path.exists()]
    if not existing:
        return ()
    if not overwrite:
        raise InputDataError(
            f"{existing[0]} exists already",
            hint="continue that run with resume_from_cache (--resume), or --overwrite it",
        )
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
    fresh = paths.materialized_inputs.with_name(paths.materialized_inputs.name + ".check")
    try:
        made = materialize(settings, fresh, agents=agents)
    finally:
        fresh.unlink(missing_ok=True)
    new = Manifest(made.input_digest, semantics, made.rollouts, made.tasks, version)
    if old.digest != new.digest or old.requested != new.requested:
        raise StaleRun(
            f"the run at {paths.output} was made from something else:\n  "
            + "\n  ".join(_changes(old, new)),
            hint="start again with --overwrite, or give back what was changed",
        )
    notices = [
        f"{path}: dropped a torn last line of {dropped} bytes"
        for path in (paths.output, paths.failures)
        if (dropped := repair(path))
    ]
    accounting = Accounting(old.requested)
    done = _ended(paths, accounting, settings.max_attempts)
    notices.append(f"resuming: {len(done)} of {old.requested} rollouts have ended already")
    return PreparedRun(paths, old, accounting, frozenset(done), tuple(notices))


def _changes(old: Manifest, new: Manifest) -> list[str]:
    changed = differences(old.semantics, new.semantics)
    if old.input_digest != new.input_digest:
        changed.insert(0, "the input rows differ")
    if old.requested != new.requested:
        changed.append(f"rollouts requested: {old.requested} -> {new.requested}")
    return changed


def _ended(paths: RunPaths, accounting: Accounting, max_attempts: int) -> set[RolloutKey]:
    """Keys that need no more attempts; the accounting gets their outcomes."""
    done: set[RolloutKey] = set()
    for row in _rows(paths.output):
        key = key_of(row)
        if key not in done:
            done.add(key)
            accounting.score(_outcome(row), float(row["reward"]), _tokens(row))
    attempts: dict[RolloutKey, int] = {}
    for row in _rows(paths.failures):
        key = key_of(row)
        attempts[key] = attempts.get(key, 0) + 1
        over = row[FAILURE_TERMINAL] or attempts[key] >= max_attempts
        if over and key not in done:
            done.add(key)
            accounting.fail(Outcome(row[FAILURE_CLASS]))
    return done


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from (line.row for line in read_jsonl(path))


def _outcome(row: Mapping[str, Any]) -> Outcome:
    details = (row.get("response") or {}).get("incomplete_details") or {}
    cut = details.get("reason") == "max_output_tokens"
    return Outcome.TRUNCATED if cut else Outcome.SCORED


def _tokens(row: Mapping[str, Any]) -> int:
    usage = (row.get("response") or {}).get("usage") or {}
    return int(usage.get("output_tokens") or 0)

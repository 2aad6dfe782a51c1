"""One complete merge: read the shards, plan the result, write it."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from palestra.engine import Accounting
from palestra.errors import InputDataError
from palestra.rollouts.merging.completeness import Completeness
from palestra.rollouts.merging.plan import Decision, decide
from palestra.rollouts.merging.scan import scan_shards
from palestra.rollouts.merging.sources import NumberedFiles, RunSize, ShardToMerge, find_shards
from palestra.rollouts.merging.write import Content, Copied, MergeTarget, Text, write_targets
from palestra.schema import RunPaths


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The planned result of a merge, with notices about the shards."""

    paths: RunPaths
    accounting: Accounting
    completeness: Completeness
    notices: tuple[str, ...]
    _decision: Decision
    _sources: NumberedFiles
    _manifest: bytes | None

    def write(self, *, overwrite: bool = False) -> tuple[str, ...]:
        """Write the merged files and return notices about existing files.

        Nothing is written when identical files already exist. Raises InputDataError: other files
        exist and `overwrite` is false. MergeFailed: the disk refuses the files.
        """
        return write_targets(self.paths, self._targets(), self._sources, overwrite=overwrite)

    def _targets(self) -> list[MergeTarget]:
        """Return the files to write, in the order in which they are renamed."""
        decided, sources = self._decision, self._sources
        inputs = Copied(decided.inputs, sources) if decided.inputs is not None else None
        failures = Copied(decided.failures, sources) if len(decided.failures) else None
        contents: dict[Path, Content | None] = {
            self.paths.materialized_inputs: inputs,
            self.paths.failures: failures,
            self.paths.manifest: Text(self._manifest) if self._manifest is not None else None,
            self.paths.output: Copied(decided.scored, sources),
        }
        return [MergeTarget(path, content) for path, content in contents.items()]


def merge(
    output: Path,
    shards: Sequence[str | Path],
    *,
    allow_partial: bool = False,
    overwrite: bool = False,
    run_size: RunSize | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> MergePlan:
    """Merge `shards` (files, folders, globs) into `output` and its companion files.

    `run_size`: the size of the run, for shards that were collected before the run grew; default: the
    size that all shards name. `report`: receives each notice about the shards and about existing
    files. Raises
    MergeIncomplete: rollouts are missing and `allow_partial` is false. Other errors are those of
    `plan_merge` and `MergePlan.write`.
    """
    with plan_merge(output, shards, run_size) as plan:
        for text in plan.notices:
            report(text)
        if not allow_partial:
            plan.completeness.check()
        for text in (*plan.completeness.gaps(), *plan.write(overwrite=overwrite)):
            report(text)
        return plan


@contextmanager
def plan_merge(
    output: Path, shards: Sequence[str | Path], run_size: RunSize | None = None
) -> Iterator[MergePlan]:
    """Read `shards` and plan the merge without writing. The plan can be written only inside the
    body.

    Raises InputDataError: shards are missing, being written, damaged, from different runs, or
    contradict each other.
    """
    paths = RunPaths(output)
    merge_shards, notices = find_shards(shards, paths.output, run_size)
    _check_places(paths, merge_shards)
    with NumberedFiles() as sources:
        scanned = scan_shards(merge_shards, sources)
        decision = decide(scanned, merge_shards, sources, run_size)
        yield MergePlan(
            paths,
            decision.accounting,
            decision.completeness,
            (*notices, *scanned.notices, *decision.notices),
            decision,
            sources,
            _manifest(merge_shards, decision.accounting, run_size or merge_shards[0].run_size),
        )


def _check_places(paths: RunPaths, shards: Sequence[ShardToMerge]) -> None:
    """Raise InputDataError: a merged file would replace a shard's file or a folder."""
    recorded_paths = {path.resolve() for shard in shards for path in shard.paths.recorded()}
    for path in paths.recorded():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="choose another name for the output")
        if path.resolve() in recorded_paths:
            raise InputDataError(
                f"the merge would write {path}, which belongs to one of its shards",
                hint="choose another output",
            )


def _manifest(
    shards: Sequence[ShardToMerge], accounting: Accounting, run_size: RunSize
) -> bytes | None:
    """Return the manifest of the whole run, with the counts of all shards; None when the shards
    have no manifests.

    The bytes do not depend on the order of the shards or of their settings.
    """
    first = shards[0].manifest
    if first is None:
        return None
    manifests = [shard.manifest for shard in shards if shard.manifest]
    versions = {manifest.version for manifest in manifests}
    earliest = min(manifests, key=lambda manifest: (manifest.started_at, manifest.command))
    ordered = orjson.dumps(first.semantics, option=orjson.OPT_SORT_KEYS)
    combined = replace(
        first,
        semantics=orjson.loads(ordered),
        requested=run_size.rollouts,
        tasks=run_size.tasks,
        version=", ".join(sorted(versions)),
        shard=None,
        command=earliest.command,
        code=", ".join(sorted({manifest.code for manifest in manifests if manifest.code})),
        started_at=earliest.started_at,
        ended_at=max(manifest.ended_at for manifest in manifests),
        reverify=earliest.reverify,
    )
    with tempfile.TemporaryDirectory() as aside:
        path = Path(aside) / "manifest.json"
        combined.write(
            path, ended_counts={outcome.value: n for outcome, n in sorted(accounting.ended.items())}
        )
        return path.read_bytes()

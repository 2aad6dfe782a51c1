"""One merge from start to finish: what is given, what it amounts to, what is written."""

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
from palestra.rollouts.merging.sources import NumberedFiles, ShardToMerge, find_shards
from palestra.rollouts.merging.write import Content, Copied, MergeTarget, Text, write_targets
from palestra.schema import RunPaths


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What a merge would write, and what is to be said about its shards."""

    paths: RunPaths
    accounting: Accounting
    completeness: Completeness
    notices: tuple[str, ...]
    _decision: Decision
    _sources: NumberedFiles
    _manifest: bytes | None

    def write(self, *, overwrite: bool = False) -> tuple[str, ...]:
        """Put the merged files in place; notices about what was there before.

        Nothing is written when they are there already. Raises InputDataError when something
        else is there and may not be replaced, MergeFailed when the disk does not take them.
        """
        return write_targets(self.paths, self._targets(), self._sources, overwrite=overwrite)

    def _targets(self) -> list[MergeTarget]:
        """In the order in which they are put in place."""
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
    tell: Callable[[str], object] = str,
) -> MergePlan:
    """Merge `shards` (files, folders, globs) into `output` and the files beside it.

    `tell` gets each notice about the shards and about what was at `output`.
    Raises MergeIncomplete when rollouts are missing, unless `allow_partial`; otherwise as
    `plan_merge` and `MergePlan.write` do.
    """
    with plan_merge(output, shards) as plan:
        for text in plan.notices:
            tell(text)
        if not allow_partial:
            plan.completeness.check()
        for text in (*plan.completeness.gaps(), *plan.write(overwrite=overwrite)):
            tell(text)
        return plan


@contextmanager
def plan_merge(output: Path, shards: Sequence[str | Path]) -> Iterator[MergePlan]:
    """Read `shards` and decide; nothing is written. The plan can be written inside the body.

    Raises InputDataError when shards are missing, being written, of different runs or
    damaged, and when they contradict each other.
    """
    paths = RunPaths(output)
    merge_shards, notices = find_shards(shards, paths.output)
    _check_places(paths, merge_shards)
    with NumberedFiles() as sources:
        scanned = scan_shards(merge_shards, sources)
        decision = decide(scanned, merge_shards, sources)
        yield MergePlan(
            paths,
            decision.accounting,
            decision.completeness,
            (*notices, *scanned.notices, *decision.notices),
            decision,
            sources,
            _manifest(merge_shards, decision.accounting),
        )


def _check_places(paths: RunPaths, shards: Sequence[ShardToMerge]) -> None:
    """Raise InputDataError when a merged file would take the place of a shard's, or of a folder."""
    recorded_paths = {path.resolve() for shard in shards for path in shard.paths.recorded()}
    for path in paths.recorded():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="give the output a name of its own")
        if path.resolve() in recorded_paths:
            raise InputDataError(
                f"the merge would write {path}, which belongs to one of its shards",
                hint="choose another output",
            )


def _manifest(shards: Sequence[ShardToMerge], accounting: Accounting) -> bytes | None:
    """That of the whole run, with the counts of all shards; None for files of other tools.

    The same for every order of shards, and for every order in which settings were given.
    """
    first = shards[0].manifest
    if first is None:
        return None
    requested, tasks = shards[0].run_size
    versions = {shard.manifest.version for shard in shards if shard.manifest}
    ordered = orjson.dumps(first.semantics, option=orjson.OPT_SORT_KEYS)
    combined = replace(
        first,
        semantics=orjson.loads(ordered),
        requested=requested,
        tasks=tasks,
        version=", ".join(sorted(versions)),
        shard=None,
    )
    with tempfile.TemporaryDirectory() as aside:
        path = Path(aside) / "manifest.json"
        combined.write(
            path, ended={outcome.value: n for outcome, n in sorted(accounting.ended.items())}
        )
        return path.read_bytes()

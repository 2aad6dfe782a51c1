"""The main steps of merge and profile jobs: from a run's shards to its merged, profiled files."""

import os
from collections.abc import Sequence
from pathlib import Path

from palestra.cli.agents_metrics import ask_agents
from palestra.cli.clustering.driving import known_plan, overrides_of, policy_settings
from palestra.cli.console import notice
from palestra.cli.merging import merge_shards
from palestra.cli.profiling_commands import profile_files
from palestra.cli.settings import load
from palestra.cluster.completeness import check_shards, write_completeness
from palestra.cluster.layout import RunFiles
from palestra.cluster.plan import Run


def merge_run(plan: Path, *, allow_partial: bool = False) -> int:
    """Merge the shards of a run; they stay where they are.

    Strict: every shard must be done. With `allow_partial` what is there is merged, and how much
    that is of each task is written down.
    """
    run = known_plan(plan)
    files = RunFiles(Path(run.output_dir))
    present = check_shards(run, files, allow_partial=allow_partial)
    config = load(
        overrides_of(run), ng=False, extra=policy_settings(run, None, os.environ), require_all=False
    )
    merged = files.merged.output
    if present == [merged.stem]:
        # The only shard there is has the name of the whole already.
        ask_agents(config, merged, files.aggregate_metrics, own_fleet=True)
        return 0
    code = merge_shards(
        config,
        merged,
        [str(files.shard(name).output) for name in present],
        allow_partial=allow_partial,
        # Of an earlier, smaller merge: kept as .bak.
        overwrite=True,
        own_fleet=True,
    )
    for text in write_completeness(run, files, allow_partial=allow_partial):
        notice(text)
    return code


def profile_run(plan: Path) -> int:
    """Profile the merged rollouts of a run."""
    run = known_plan(plan)
    profile_merged(run)
    return 0


def profile_merged(run: Run, *, group_by: str | None = None) -> Sequence[Path]:
    """Write the profile beside the merged rollouts; the files that it was made from."""
    files = RunFiles(Path(run.output_dir))
    return profile_files(
        str(files.merged.materialized_inputs),
        str(files.merged.output),
        # A merge that was allowed to be partial has said so in a file.
        allow_partial=files.completeness.exists(),
        group_by=group_by,
    )

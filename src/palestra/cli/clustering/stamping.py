"""The first job of a run whose input the submitting machine could not read."""

from pathlib import Path

from palestra.cli.clustering.driving import overrides_of, policy_settings
from palestra.cli.console import notice, say
from palestra.cli.settings import existing_path, load
from palestra.cluster.layout import RunFiles
from palestra.cluster.overrides import collect_settings
from palestra.cluster.plan import read_plan
from palestra.cluster.stamping import remember_stamped, stamp
from palestra.config import ServerType
from palestra.errors import InputDataError


def prepare_run(plan: Path) -> int:
    """Check the configuration and every row, and stamp the rows of all shards."""
    try:
        run = read_plan(plan)
    except (OSError, ValueError) as error:
        raise InputDataError(f"{plan} is no plan that can be read: {error}") from error
    files = RunFiles(Path(run.output_dir))
    config = load(overrides_of(run), ng=False, extra=policy_settings(run, None, {}))
    stamped = stamp(
        collect_settings(
            run.collect,
            run.collect.collect_overrides,
            existing_path(run.collect.input_file),
            seeded=run.collect.seeded,
        ),
        run.shards,
        files,
        agents=[i.name for i in config.instances.values() if i.type == ServerType.AGENT],
        seeded=run.collect.seeded,
        limit=run.collect.limit,
        check=lambda found: remember_stamped(found, files, anew=run.rerun_done),
    )
    for text in stamped.notices:
        notice(text)
    say(f"{stamped.rollouts} rollouts of {stamped.tasks} tasks in {len(stamped.shards)} shards")
    return 0

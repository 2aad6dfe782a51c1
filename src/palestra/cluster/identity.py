"""What makes two submissions into one folder the same run, so that their shards belong together."""

from collections.abc import Mapping

from palestra.cluster.layout import RunFiles
from palestra.cluster.options import RolloutOptions
from palestra.cluster.plan import read_plan
from palestra.cluster.stamping import Stamped
from palestra.rollouts import CollectSettings, StaleRun, differences


def identity_of(
    options: RolloutOptions, settings: CollectSettings, stamped: Stamped | None
) -> dict[str, str]:
    """No credentials, no endpoints, nothing that may change between submissions.

    `stamped`: None while nobody could read the rows. What the servers are made of is held to by
    each shard's manifest, inside its job.
    """
    rows = {} if stamped is None else {"input rows": stamped.input_digest}
    return {
        **rows,
        "seeds": ",".join(map(str, options.seeds)) if options.seeds is not None else "none",
        "num_chunks": str(options.num_chunks or "none"),
        "num_repeats": str(options.num_repeats),
        "limit": str(options.limit or "none"),
        "responses_create_params": repr(dict(settings.responses_create_params)),
    }


def check_same_run(files: RunFiles, new: Mapping[str, str]) -> None:
    """Raise StaleRun when the folder holds a run that was made from something else."""
    earlier = files.submissions()
    if not earlier:
        return
    old = read_plan(files.submission(earlier[-1]).plan).identity
    # Of rows that could not be read either time, nothing is known.
    both = old.keys() & new.keys()
    changed = differences({key: old[key] for key in both}, {key: new[key] for key in both})
    if changed:
        raise StaleRun(
            f"the run in {files.output_dir} was made from something else:\n  "
            + "\n  ".join(changed),
            hint="give back what was changed, or choose another --output-dir",
        )

"""What makes two submissions into one folder the same run, so that their shards belong together."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from palestra.cluster.layout import RunFiles
from palestra.cluster.plan import is_command, read_plan
from palestra.cluster.records import read_object
from palestra.cluster.shard import is_done
from palestra.cluster.stamping import Stamped
from palestra.config import ResolvedConfig, is_secret_name
from palestra.errors import ConfigError, KnownCause
from palestra.rollouts import OPERATIONAL, StaleRun, differences
from palestra.settings import CollectSettings, RolloutOptions

HINT: Final = (
    "give back what was changed, or choose another --output-dir, or collect everything again with "
    "--rerun-done"
)


def identity_of(
    options: RolloutOptions,
    settings: CollectSettings,
    stamped: Stamped | None,
    config: ResolvedConfig | None,
) -> dict[str, str]:
    """No credentials, no endpoints, nothing that may change between submissions.

    `stamped`: None while nobody could read the rows; `config`: the servers', None while nobody
    could read that. Each shard's manifest holds to it as well, inside its job, down to the code.
    """
    rows = {} if stamped is None else {"input rows": stamped.input_digest}
    return {
        **rows,
        **(_servers(config) if config is not None else {}),
        "model": options.policy_name or "none",
        "seeds": ",".join(map(str, options.seeds)) if options.seeds is not None else "none",
        "num_chunks": str(options.num_chunks or "none"),
        "num_repeats": str(options.num_repeats),
        "limit": str(options.limit or "none"),
        "responses_create_params": repr(dict(settings.responses_create_params)),
    }


def _servers(config: ResolvedConfig) -> dict[str, str]:
    """A digest of each server's settings, so that a difference can be named."""
    return {
        f"server {name}": _digest([i.type, i.implementation, _lasting(i.settings)])
        for name, i in config.instances.items()
    }


def _lasting(value: Any) -> Any:
    """A setting without what may change: endpoints, secrets, and how the work is done."""
    if isinstance(value, Mapping):
        return {
            str(key): _lasting(held)
            for key, held in value.items()
            if key not in OPERATIONAL and not is_secret_name(key)
        }
    if isinstance(value, list | tuple):
        return [_lasting(held) for held in value]
    return value


def _digest(value: object) -> str:
    text = orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def check_same_run(files: RunFiles, new: Mapping[str, str], stamped: Stamped | None) -> None:
    """Raise StaleRun when the folder holds a run, or shards, made from something else.

    Raises ConfigError when it holds a command's run. `stamped`: None while nobody could read the rows.
    """
    _check_plan(files, new)
    if stamped is None:
        return
    for shard in stamped.shards:
        manifest = read_object(files.shard(shard.name).manifest) or {}
        rows = manifest.get("input_digest", stamped.input_digest)
        if rows != stamped.input_digest and is_done(files.shard(shard.name)):
            raise StaleRun(
                f"{shard.name} is done, and was made from other input rows",
                hint=HINT,
                cause=KnownCause.STALE_INPUTS,
            )


def _check_plan(files: RunFiles, new: Mapping[str, str]) -> None:
    earlier = files.submissions()
    if not earlier:
        return
    plan = read_plan(files.submission(earlier[-1]).plan)
    if is_command(plan):
        raise ConfigError(
            f"{files.output_dir} holds a command's run", hint="choose another --output-dir"
        )
    old = plan.identity
    # Of rows that could not be read either time, nothing is known.
    both = old.keys() & new.keys()
    changed = differences({key: old[key] for key in both}, {key: new[key] for key in both})
    if changed:
        raise StaleRun(
            f"the run in {files.output_dir} was made from something else:\n  "
            + "\n  ".join(changed),
            hint=HINT,
        )

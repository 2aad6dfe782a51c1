"""Submit rollouts: from the options to running jobs. Only this part of planning has side effects.

First everything is checked. Then the rows are stamped with indices, the folder is written, and the
jobs are submitted. Each job id is written to the ledger at once.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final

import orjson

import palestra
from palestra.cluster.components import SLURM_ARRAY_SIZE, Facts
from palestra.cluster.executors.slurm import SlurmExecutor
from palestra.cluster.growth import SEEDS, all_seeds, are_seeded, has_grown, seeds_text
from palestra.cluster.layout import RunFiles
from palestra.cluster.options import checked_options, missing_here
from palestra.cluster.overrides import collect_settings, filled, served_config, split_extra
from palestra.cluster.packaging import code_version
from palestra.cluster.places import Placed, mounts_of
from palestra.cluster.plan import After, Run, Shard, is_command, read_plan
from palestra.cluster.planner import plan_run
from palestra.cluster.records import read_object
from palestra.cluster.shard import is_done
from palestra.cluster.stamping import Stamped, shards_of, stamp
from palestra.cluster.submitter import Submission, Submitter
from palestra.cluster.units import submitted_plan
from palestra.cluster.writing import Writer
from palestra.config import ResolvedConfig, ServerType, is_secret_name, raise_problems
from palestra.errors import ConfigError, KnownCause
from palestra.rollouts import OPERATIONAL, StaleRun, differences
from palestra.settings import CollectSettings, RolloutOptions

HINT: Final = (
    "undo the changes, or choose another --output-dir, or collect everything again with "
    "--rerun-done"
)


def identity_of(
    options: RolloutOptions,
    settings: CollectSettings,
    stamped: Stamped | None,
    config: ResolvedConfig | None,
    seeds: tuple[int, ...] | None,
) -> dict[str, str]:
    """Return the inputs that identify a run: no credentials or endpoints, nothing that may change
    later.

    `stamped`: None when the rows could not be read yet. `config`: the servers' configuration, None
    when it could not be read yet. `seeds`: all seeds of the run, also those of earlier submissions.
    Each shard's manifest checks the same inputs again inside the job, and also the code.
    """
    rows = {} if stamped is None else {"input rows": stamped.input_digest}
    return {
        **rows,
        **(_servers(config) if config is not None else {}),
        "model": options.policy_name or "none",
        **{
            f"model {name}": server.requested_name
            for name, server in options.further_servers.items()
        },
        SEEDS: seeds_text(seeds),
        "num_chunks": str(options.num_chunks or "none"),
        "num_repeats": str(options.num_repeats),
        "limit": str(options.limit or "none"),
        "responses_create_params": repr(dict(settings.responses_create_params)),
    }


def _servers(config: ResolvedConfig) -> dict[str, str]:
    """Return a digest of each server's settings, so that a message can name the server that
    differs.
    """
    return {
        f"server {name}": _digest([i.type, i.implementation, _lasting(i.settings)])
        for name, i in config.instances.items()
    }


def _lasting(value: Any) -> Any:
    """Return a setting without parts that may change: endpoints, secrets, operational settings."""
    if isinstance(value, Mapping):
        return {
            str(key): _lasting(member)
            for key, member in value.items()
            if key not in OPERATIONAL and not is_secret_name(key)
        }
    if isinstance(value, list | tuple):
        return [_lasting(member) for member in value]
    return value


def _digest(value: object) -> str:
    text = orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def check_same_run(files: RunFiles, new: Mapping[str, str], stamped: Stamped | None) -> None:
    """Raise StaleRun when the folder contains a run, or done shards, made from other inputs.

    Raises ConfigError: the folder contains the run of a command. `stamped`: None when the rows
    could not be read yet.
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
    submitted = submitted_plan(files)
    numbers = files.submissions()
    plan = submitted or (read_plan(files.submission(numbers[-1]).plan) if numbers else None)
    if plan is None:
        return
    if is_command(plan):
        raise ConfigError(
            f"{files.output_dir} holds a job that runs a command, not rollouts",
            hint="choose another --output-dir",
        )
    old = plan.identity
    # Of rows that could not be read either time, nothing is known.
    both = old.keys() & new.keys()
    if SEEDS in both and (
        # A dry run may name more seeds than the run gets.
        has_grown(old[SEEDS], new[SEEDS]) or (submitted is None and are_seeded(old, new))
    ):
        both -= {SEEDS}
    changed = differences({key: old[key] for key in both}, {key: new[key] for key in both})
    if changed:
        raise StaleRun(
            f"the run in {files.output_dir} was made from something else:\n  "
            + "\n  ".join(changed),
            hint=HINT,
        )


def rollouts(
    *, extra: Sequence[str] = (), report: Callable[[str], None] = lambda _: None, **options: Any
) -> Submission:
    """Collect rollouts over the jobs of a cluster. `options`: those of `palestra cluster rollouts`.

    `extra`: Hydra overrides that name no stage. Each sets the option with the same meaning; without
    such an option, it goes to the stage that has the setting. `report`: called with each notice.
    Raises ConfigError, before anything is written: the options are invalid. Raises StaleRun: the
    output folder contains another run. Raises ClusterUnreachable: the cluster did not answer.
    """
    filled_options = filled(options, extra, os.environ)
    options = filled_options.options
    serve, collect = split_extra(filled_options.extra)
    for name, further in (("serve_override", serve), ("collect_override", collect)):
        own_overrides = options.get(name) or ()
        options[name] = (
            *((own_overrides,) if isinstance(own_overrides, str) else own_overrides),
            *further,
        )
    return _RolloutSubmitter(checked_options(**options), report, filled_options.notices).submit()


class _RolloutSubmitter(Submitter):
    """Performs the steps that submit rollouts, in order."""

    def __init__(
        self, options: RolloutOptions, report: Callable[[str], None], notices: Sequence[str] = ()
    ) -> None:
        super().__init__(options, options.output_dir, report, notices)
        self._options: RolloutOptions = options
        raise_problems(missing_here(options, self._cluster, self._cwd))
        self._places = replace(self._places, gym_path=options.gym_path)
        self._input = self._places.input(options.input_file)
        self._configs = [self._places.config(path) for path in options.config_paths]
        self._far = [placed for placed in (self._input, *self._configs) if not placed.here]
        earlier = None if options.rerun_done else submitted_plan(self._files)
        self._seeds = all_seeds(earlier, options.seeds)

    def submit(self) -> Submission:
        options = self._options
        after = self._after()
        self._check_ray()
        config = self._served()
        settings = collect_settings(
            options,
            options.collect_override,
            self._input.outside,
            seeded=options.seeds is not None,
        )
        facts = self._facts(after)
        writer = Writer(
            options,
            self._cluster,
            self._files,
            self._how,
            self._cwd,
            config.secrets if config is not None else (),
        )
        # Whatever cannot be planned or written is said before the input is read.
        writer.check(plan_run(options, self._cluster, self._name, facts))
        with self._submission_lock(facts.submission):
            facts = self._stamped_whole(facts, settings, config)
            run = plan_run(options, self._cluster, self._name, facts)
            self._say_what_is_there(facts)
            return self._submitted(run, writer)

    def _stamped_whole(
        self, facts: Facts, settings: CollectSettings, config: ResolvedConfig | None
    ) -> Facts:
        try:
            return self._stamped(facts, settings, config)
        except OSError as error:
            raise self._not_written(error) from error

    def _check_ray(self) -> None:
        """Raise ConfigError when jobs use this machine's Python packages and Ray is not installed."""
        if self._options.ray_nodes and not self._places.containers and find_spec("ray") is None:
            raise ConfigError(
                "--ray-nodes: Ray is not installed", hint="pip install 'palestra[ray]'"
            )

    def _served(self) -> ResolvedConfig | None:
        """Return the servers' configuration; None when a config file can only be read in the job."""
        if any(not config.here for config in self._configs):
            return None
        paths = [config.outside for config in self._configs]
        is_elsewhere = self._places.packaged or self._places.containers
        if is_elsewhere and (self._cwd / "env.yaml").exists():
            self._log_line(
                "env.yaml is not copied: jobs in containers or of packaged code cannot read it"
            )
        return served_config(
            self._options, paths, self._options.serve_override, use_env_yaml=not is_elsewhere
        )

    def _facts(self, after: tuple[After, ...]) -> Facts:
        options = self._options
        log_dir = self._log_dir()
        number = self._next_submission()
        shards = shards_of(self._seeds, options.num_chunks)
        done_shards = {shard.name for shard in shards if is_done(self._files.shard(shard.name))}
        wanted_shards = [
            name for name in self._chosen(shards) if options.rerun_done or name not in done_shards
        ]
        folder = self._files.submission(number)
        return Facts(
            output_dir=self._output.inside,
            log_dir=log_dir.inside,
            submission=number,
            python=self._cluster.python or sys.executable,
            config_paths=tuple(config.inside for config in self._configs),
            input_file=self._input.inside,
            shards=shards,
            wanted=tuple(wanted_shards),
            serve_overrides=options.serve_override,
            collect_overrides=options.collect_override,
            workdir=self._workdir(folder),
            code=str(folder.code) if self._places.packaged else None,
            mounts=mounts_of(
                [
                    log_dir,
                    *self._configs,
                    *self._model(),
                    *([self._input] if self._far else []),
                ]
            ),
            after=after,
            complete={shard.name for shard in shards} <= done_shards | set(wanted_shards),
            max_array_size=self._largest_array(),
            materialized=not self._far,
            code_version=code_version(self._cwd, self._how, palestra.__version__),
        )

    def _chosen(self, shards: Sequence[Shard]) -> list[str]:
        """Return the shards of the seeds and chunks that the options name."""
        seeds, chunks = self._options.seeds or (0,), self._options.chunks or (0,)
        return [s.name for s in shards if s.seed in seeds and s.chunk in chunks]

    def _say_what_is_there(self, facts: Facts) -> None:
        """Report the run's seeds and done shards, once it is known that it can go on."""
        if self._seeds is not None and len(self._seeds) > len(self._options.seeds or (0,)):
            self._log_line(f"the run has the seeds {seeds_text(self._seeds)} now")
        chosen = self._chosen(facts.shards)
        if done_count := len(chosen) - len(facts.wanted):
            self._log_line(f"{done_count} of {len(chosen)} shards are done already")

    def _model(self) -> Iterator[Placed]:
        """Yield the place of the model if `--model` is an absolute path. Nothing for a name on a
        hub.
        """
        model = self._options.model or ""
        if self._options.self_hosted and model.startswith("/"):
            yield self._places.path(model, "--model")

    def _largest_array(self) -> int:
        largest = self._cluster.max_array_size
        if (
            largest is None
            and isinstance(self._executor, SlurmExecutor)
            and not self._options.dry_run
        ):
            largest = self._executor.max_array_size()
        return largest or SLURM_ARRAY_SIZE

    def _stamped(
        self, facts: Facts, settings: CollectSettings, config: ResolvedConfig | None
    ) -> Facts:
        """Write the shards' rows, and return the facts completed with their counts and digest."""
        if self._far:
            self._log_line(
                f"{', '.join(placed.inside for placed in self._far)} cannot be read here: the job "
                "`prepare` checks everything and stamps the rows, before any model is loaded"
            )
            identity = identity_of(self._options, settings, None, config, self._seeds)
            self._check_same(identity)
            return replace(facts, identity=identity)
        instances = config.instances.values() if config is not None else ()
        agents = [i.name for i in instances if i.type == ServerType.AGENT]
        stamped = stamp(
            settings,
            facts.shards,
            self._files,
            agents=agents,
            seeded=self._options.seeds is not None,
            limit=self._options.limit,
            check=lambda stamped: self._check_same(
                identity_of(self._options, settings, stamped, config, self._seeds), stamped
            ),
        )
        return replace(
            facts,
            shards=stamped.shards,
            input_digest=stamped.input_digest,
            tasks=stamped.tasks,
            rollouts=stamped.rollouts,
            identity=identity_of(self._options, settings, stamped, config, self._seeds),
        )

    def _check_same(self, identity: Mapping[str, str], stamped: Stamped | None = None) -> None:
        """Raise StaleRun when the folder contains another run, unless `--rerun-done` is given."""
        try:
            check_same_run(self._files, identity, stamped)
        except StaleRun as error:
            if not self._options.rerun_done:
                raise
            self._log_line(f"--rerun-done: {error.message}")

    def _say_what_waits(self, run: Run) -> None:
        """Report that merge and profile follow later, if this submission does not contain them."""
        if not any(not job.shards for job in run.jobs):
            self._log_line(
                "not all shards are part of this submission or done: merge and profile follow "
                "once they are"
            )

"""The main steps of a run's jobs: prepare, collect a shard, merge, profile.

A restarted job continues its shard from the rollouts that are already recorded.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import orjson

from palestra.api import OwnFleet, verified_by
from palestra.cli.clustering.ray_node import address_of_cluster
from palestra.cli.collecting import collect_with, stoppable
from palestra.cli.console import masking, notice, say, warn_all
from palestra.cli.fleet_commands import OBSERVER
from palestra.cli.loop import STOP_S
from palestra.cli.merging import ask_agents, merge_shards
from palestra.cli.profiling_commands import profile_files
from palestra.cli.watching import watching
from palestra.cluster import (
    CHECK_S,
    JobFiles,
    LeaseWatch,
    Policy,
    Role,
    Run,
    RunFiles,
    check_shards,
    collect_settings,
    folder_of,
    join_runs,
    read_object,
    read_plan,
    read_run,
    remember_stamped,
    stamp,
    with_stamped,
    write_completeness,
)
from palestra.config import ResolvedConfig, ServerType, names_in_files
from palestra.errors import InputDataError, RunFailed
from palestra.rollouts import RunSize
from palestra.sandbox import HOST_VARIABLE, PORT_VARIABLE, TOKEN_VARIABLE
from palestra.schema import JsonDict, RunPaths
from palestra.settings import (
    CollectArgs,
    CollectSettings,
    GivenRows,
    MergeRunsArgs,
    MergeShardsArgs,
    Share,
    args_from,
    existing_path,
    existing_paths,
    load,
)
from palestra.system import exit_in_order

JOB_DIR, NONCE, DRAIN_FILE, JOB_NAME = (
    "PALESTRA_JOB_DIR",
    "PALESTRA_NONCE",
    "PALESTRA_DRAIN_FILE",
    "PALESTRA_JOB_NAME",
)
LEASE, LEASE_NUMBER = "PALESTRA_LEASE", "PALESTRA_LEASE_NUMBER"


def drive(plan: Path, shard: str) -> int:
    """Collect one shard of a plan, inside its job; exit 0 once each of its rollouts has ended.

    A rollout that failed for good counts as ended. The merge step decides whether the run is good.
    """
    run = known_plan(plan)
    files = RunFiles(Path(run.output_dir))
    environment = dict(os.environ)
    job = JobFiles(Path(environment[JOB_DIR])) if JOB_DIR in environment else None
    _tell_of_sandbox(run, job, environment)
    _stop_without_lease(environment)
    ray = _ray_settings(run, job, environment)
    given_inputs = files.given_inputs(shard)
    if not given_inputs.exists():
        raise InputDataError(
            f"{given_inputs} is missing",
            hint="submit the run again: the submission writes this file",
        )
    config = load(
        overrides_of(run),
        ng=False,
        extra={
            **policy_settings(run, job, environment),
            **ray,
            "input_jsonl_fpath": str(given_inputs),
            "output_jsonl_fpath": str(files.shard(shard).output),
            "agent_name": run.collect.agent_name,
            "num_samples_in_parallel": run.collect.num_samples_in_parallel,
        },
    )
    warn_all(config.warnings)
    drain = environment.get(DRAIN_FILE)
    return _collect(config, _settings(run, shard, config, Path(drain) if drain else None))


def _stop_without_lease(environment: Mapping[str, str]) -> None:
    """Stop this process in order when its supervisor is gone or another job has taken over the
    shard.

    When a node is lost, Slurm only marks its jobs as ended: their processes may still run.
    """
    if LEASE not in environment:
        return
    lease = LeaseWatch(Path(environment[LEASE]), int(environment[LEASE_NUMBER]))

    def watch() -> None:
        while not (why := lease.lost()):
            threading.Event().wait(CHECK_S)
        # Who read our output may be gone, too: that must not keep us here.
        saying = threading.Thread(target=_log_line, args=(f"stopping: {why}",), daemon=True)
        saying.start()
        saying.join(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(STOP_S[signal.SIGTERM] + 1.0)
        exit_in_order(128 + signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="lease").start()


def _log_line(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        notice(text)


def _collect(config: ResolvedConfig, settings: CollectSettings) -> int:
    with watching("plain", None, lag_threshold_s=0.5) as watch, masking(config.secrets):
        main = collect_with(OwnFleet(config, OBSERVER), settings, watch, metrics=False)
        return stoppable(main, settings, watch)


def _settings(
    run: Run, shard: str, config: ResolvedConfig, drain_file: Path | None
) -> CollectSettings:
    settings = args_from(CollectArgs, config.tree).settings(config)
    if run.rollouts is None or run.tasks is None:
        raise InputDataError("the plan does not say how many rollouts the run has")
    commit = run.code_version.partition(" ")[2]
    return replace(
        settings,
        given=GivenRows(run.input_digest, run.rollouts, run.tasks, commit),
        shard=share_of_shard(run, shard),
        verified_by=verified_by(overrides_of(run), config),
        source_files=existing_paths(run.collect.input_file),
        resume_from_cache=True,
        overwrite=False,
        on_stale="error",
        # Each is made of the whole run, once it is merged.
        disable_aggregation=True,
        min_coverage=0.0,
        drain_file=drain_file,
    )


def share_of_shard(run: Run, name: str) -> Share:
    """Return the place of a shard among all shards.

    A shard that began before the run got more seeds keeps the place that it had.
    """
    manifest = read_object(RunFiles(Path(run.output_dir)).shard(name).manifest) or {}
    recorded_share = manifest.get("shard")
    if recorded_share:
        return Share(recorded_share["index"], recorded_share["of"])
    return Share([shard.name for shard in run.shards].index(name), len(run.shards))


def known_plan(path: Path) -> Run:
    """Read the plan of a run from a file, or of the last submission into a run's folder.

    Raises InputDataError: it cannot be read.
    """
    if path.is_dir():
        return with_stamped(read_run(RunFiles(path.absolute())))
    try:
        return with_stamped(read_plan(path))
    except (OSError, ValueError) as error:
        raise InputDataError(f"{path} cannot be read as a plan (plan.json): {error}") from error


def overrides_of(run: Run) -> list[str]:
    """Return the configuration of a run's servers and collections, as overrides."""
    paths = ",".join("'" + path.replace("'", "\\'") + "'" for path in run.collect.config_paths)
    return [
        f"+config_paths=[{paths}]",
        *run.collect.serve_overrides,
        *run.collect.collect_overrides,
    ]


def policy_settings(run: Run, job: JobFiles | None, environment: Mapping[str, str]) -> JsonDict:
    """Return the settings of the models: their URLs, API keys and names. They are written nowhere.

    `job`: None for a step that only reads stored responses and calls no model.
    """
    tree: JsonDict = {}
    for model in run.further_models:
        tree.update(_served_settings(model, job, environment))
    policy = run.policy
    if policy.server is not None:
        return {**tree, **_served_settings(policy, job, environment)}
    if policy.model:
        tree["policy_model_name"] = policy.model
    if policy.base_url is not None:
        tree["policy_base_url"] = policy.base_url
    if policy.api_key_env is not None:
        key = environment.get(policy.api_key_env, "")
        if not key and job is not None:
            raise InputDataError(
                f"the variable {policy.api_key_env}, which holds the API key, is empty in the job",
                hint="export the variable in the shell that submits the run",
            )
        tree["policy_api_key"] = key or "none"
    elif policy.base_url is not None and "policy_api_key" not in names_in_files(overrides_of(run)):
        tree["policy_api_key"] = "none"  # an endpoint that asks for none
    return tree


def _served_settings(
    model: Policy, job: JobFiles | None, environment: Mapping[str, str]
) -> JsonDict:
    """Return the settings of a model whose server the job has started."""
    name = model.name
    url, key = "http://127.0.0.1:9/v1", "none"
    if job is not None and model.server is not None:
        host, port, key = endpoint(job, model.server, environment)
        _reach_directly(host)
        url = f"http://{host}:{port}/v1"
    model_name: JsonDict = {f"{name}_model_name": model.model} if model.model else {}
    return {**model_name, f"{name}_base_url": url, f"{name}_api_key": key}


def _reach_directly(host: str) -> None:
    """Make this process and its servers connect to `host`, a node of this job, without the site's
    proxy.
    """
    exceptions = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    value = f"{exceptions},{host}" if exceptions else host
    os.environ.update(no_proxy=value, NO_PROXY=value)


def endpoint(job: JobFiles, component: str, environment: Mapping[str, str]) -> tuple[str, int, str]:
    """Return host, port and nonce of a service that the current start of this job has published.

    Raises RunFailed: there is no endpoint, or another start or another job published it.
    """
    path = job.endpoint(component)
    try:
        address = orjson.loads(path.read_bytes())
        host, port, nonce = str(address["host"]), int(address["port"]), str(address["nonce"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFailed(f"{component} has published no endpoint in {path} ({error!r})") from error
    if nonce != environment.get(NONCE):
        raise RunFailed(
            f"the endpoint of {component} in {path} was written by an earlier start of this job",
            hint="read the log of the job's supervisor: the service may have ended",
        )
    return host, port, nonce


def _tell_of_sandbox(run: Run, job: JobFiles | None, environment: Mapping[str, str]) -> None:
    """Set the sandbox's usual environment variables for this process, if the job has a sandbox."""
    service = _service(run, job, environment, Role.SANDBOX)
    if service is not None:
        host, port, nonce = service
        os.environ.update({HOST_VARIABLE: host, PORT_VARIABLE: str(port), TOKEN_VARIABLE: nonce})


def _ray_settings(run: Run, job: JobFiles | None, environment: Mapping[str, str]) -> JsonDict:
    """Return the address of the job's Ray cluster as settings; empty when the job has no Ray
    cluster.

    Also sets the cluster's token in the environment variables of this process.
    """
    service = _service(run, job, environment, Role.RAY)
    if service is None:
        return {}
    host, port, nonce = service
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=nonce)
    return {"ray_head_node_address": address_of_cluster(host, port, nonce)}


def _service(
    run: Run, job: JobFiles | None, environment: Mapping[str, str], role: Role
) -> tuple[str, int, str] | None:
    """Return the endpoint of this job's service with `role`; None when the job has no such service."""
    name = environment.get(JOB_NAME)
    if job is None or name is None:
        return None
    for component in run.job(name).components:
        if component.role is role:
            return endpoint(job, component.name, environment)
    return None


def prepare_run(plan: Path) -> int:
    """Check the configuration and every input row, and write the rows of all shards with their
    indices.
    """
    try:
        run = read_plan(plan)
    except (OSError, ValueError) as error:
        raise InputDataError(f"{plan} cannot be read as a plan (plan.json): {error}") from error
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
        check=lambda stamped: remember_stamped(stamped, files, anew=run.rerun_done),
    )
    say(f"{stamped.rollouts} rollouts of {stamped.tasks} tasks in {len(stamped.shards)} shards")
    return 0


def merge_by_hand(args: MergeShardsArgs) -> int:
    """Merge the shards of a run when a user calls the command."""
    return merge_run(args.plan, allow_partial=args.allow_partial)


def merge_runs(args: MergeRunsArgs) -> int:
    """Merge the shards of several runs of one plan into a new folder, and profile the result."""
    runs = [with_stamped(read_run(folder_of(name))) for name in args.runs]
    joined = join_runs(runs)
    files = RunFiles(args.output_dir.absolute())
    config = load(
        overrides_of(runs[0]),
        ng=False,
        extra=policy_settings(runs[0], None, os.environ),
        require_all=False,
    )
    files.output_dir.mkdir(parents=True, exist_ok=True)
    merge_shards(
        config,
        files.merged.output,
        [str(shard.output) for shard in joined.shards],
        allow_partial=False,
        overwrite=False,
        run_size=joined.size,
        own_fleet=True,
    )
    profile_files(
        str(files.merged.materialized_inputs),
        str(files.merged.output),
        allow_partial=False,
        group_by=None,
    )
    return 0


def merge_run(plan: Path, *, allow_partial: bool = False) -> int:
    """Merge the shards of a run. The shards' own files stay in place.

    By default every shard must be done. With `allow_partial`, the existing shards are merged, and a
    file records how complete each task is.
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
        # Of an earlier, smaller merge: kept as .bak until this one is whole.
        overwrite=True,
        # Shards that were done before seeds were added name the size that the run had then.
        run_size=RunSize(run.rollouts or 0, run.tasks or 0),
        own_fleet=True,
    )
    for text in write_completeness(run, files, allow_partial=allow_partial):
        notice(text)
    if code == 0 and not allow_partial:
        remove_smaller_merge(merged)
    return code


def remove_smaller_merge(merged: Path) -> None:
    """Remove the `.bak` files of an earlier merge, all of whose shards are in the new one."""
    for path in RunPaths(merged).all():
        path.with_name(f"{path.name}.bak").unlink(missing_ok=True)


def profile_run(plan: Path) -> int:
    """Write the profile of a run into the folder of its merged rollouts."""
    files = RunFiles(Path(known_plan(plan).output_dir))
    profile_files(
        str(files.merged.materialized_inputs),
        str(files.merged.output),
        # A merge that was allowed to be partial has said so in a file.
        allow_partial=files.completeness.exists(),
        group_by=None,
    )
    return 0

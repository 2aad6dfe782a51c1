"""`collect`: rows through agents, against a running fleet or one inside this command."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

import palestra
from palestra.cli.console import masking, notice, say, shown, warn_all
from palestra.cli.endpoints import wait_for_endpoints
from palestra.cli.fleet_commands import show_instances
from palestra.cli.loop import Stopped, run_to_end
from palestra.cli.progress import choose_kind, live_view
from palestra.cli.settings import CollectArgs, args_from, load
from palestra.cli.tables import print_table
from palestra.config import PACKAGE_ROOT, InstanceConfig, ResolvedConfig, config_from_tree, redact
from palestra.errors import PalestraError, RunFailed
from palestra.rollouts import (
    Collected,
    CollectSettings,
    PreparedRun,
    Progress,
    first_cause,
    prepare,
    run,
    semantics_of,
)
from palestra.schema import FAILURE_CLASS, read_jsonl
from palestra.serving import (
    EMBEDDED,
    AttachedFleet,
    Fleet,
    ForeignFleet,
    HeadAddress,
    NoFleet,
    attach,
    http_transport,
    raise_descriptor_limit,
    server_client,
)
from palestra.transport import HttpTransport, ServerClient

T = TypeVar("T")
AGENT_TYPE = "responses_api_agents"
HEAD_CHECK_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Reachable:
    """A fleet to collect with: how to call it, what it is made of, and what ends it."""

    client: ServerClient
    config: ResolvedConfig
    watch: Callable[[], Awaitable[None]]
    """Raises when the fleet breaks; never returns otherwise."""

    @property
    def agents(self) -> frozenset[str]:
        """The agent instances."""
        return frozenset(name for name, i in self.config.instances.items() if i.type == AGENT_TYPE)

    def semantics(self, settings: CollectSettings) -> dict[str, Any]:
        """What the run's rewards depend on."""
        masked = redact(self.config.tree, self.config.secrets)
        instances = {
            name: (str(i.type), i.implementation, _own_settings(masked, i.name, i.settings))
            for name, i in self.config.instances.items()
        }
        shaping = {
            "agent_name": settings.agent_name,
            "responses_create_params": dict(settings.responses_create_params),
            "num_repeats": settings.num_repeats,
            "num_repeats_add_seed": settings.num_repeats_add_seed,
            "prompt": settings.prompt_config.read_text() if settings.prompt_config else None,
        }
        code = {name: digest for name, i in self.config.instances.items() if (digest := _code(i))}
        return semantics_of(instances, {**shaping, "code": code})


def collect(overrides: list[str], *, ng: bool, extra: Mapping[str, Any] | None = None) -> int:
    """Collect rollouts as the settings say; exit 1 when coverage is below the minimum."""
    config = load(overrides, ng=ng, extra=extra)
    warn_all(config.warnings)
    args = args_from(CollectArgs, config.tree)
    # The field's command starts afresh over existing outputs; they are moved aside.
    settings = args.settings(overwrite=True if ng and not args.resume_from_cache else None)
    with masking(config.secrets):
        return stoppable(_collect(config, settings, choose_kind(args.progress)), settings)


def stoppable(main: Any, settings: CollectSettings) -> int:
    """Run a collection; when a signal stops it, say how to go on."""
    try:
        code: int = run_to_end(main)
    except Stopped as stopped:
        output = settings.output_jsonl_fpath
        if not output.exists():
            notice(f"stopped by {stopped.signal.name} before any rollout had ended")
            return stopped.exit_code
        notice(f"stopped by {stopped.signal.name}; what has ended is in {shown(output)}")
        notice(
            f"hint: the same command with --output {shown(output)} --resume "
            "(++resume_from_cache=true) goes on from there"
        )
        return stopped.exit_code
    return code


async def _collect(config: ResolvedConfig, settings: CollectSettings, view: str) -> int:
    async with _reach(config) as fleet:
        return await collect_with(fleet, settings, view)


async def collect_with(
    fleet: Reachable, settings: CollectSettings, view: str, *, metrics: bool = True
) -> int:
    """Prepare, run and account; the exit code. `metrics` says whether to print those too."""
    prepared = prepare(
        settings,
        agents=fleet.agents,
        semantics=fleet.semantics(settings),
        version=palestra.__version__,
    )
    for text in prepared.notices:
        notice(text)
    notice(
        f"{prepared.manifest.requested} rollouts of {prepared.manifest.tasks} tasks "
        f"-> {shown(prepared.paths.output)}"
    )
    collected = await unless(fleet.watch(), _watched(prepared, settings, fleet.client, view))
    return report(collected, prepared, settings, metrics=metrics)


async def _watched(
    prepared: PreparedRun, settings: CollectSettings, client: ServerClient, view: str
) -> Collected:
    async with contextlib.AsyncExitStack() as stack:
        entered: asyncio.Queue[Progress] = asyncio.Queue()

        async def show() -> None:
            async with live_view(view, await entered.get()):
                await asyncio.Event().wait()

        showing = asyncio.create_task(show(), name="view")
        stack.push_async_callback(_cancel, showing)
        try:
            return await run(prepared, settings, client, on_start=entered.put_nowait)
        except BaseException:
            if prepared.paths.manifest.exists():
                notice(prepared.accounting.line())
            raise


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def report(
    collected: Collected, prepared: PreparedRun, settings: CollectSettings, *, metrics: bool
) -> int:
    """The end of a collection: accounting, key metrics, where everything is; the exit code."""
    accounting = collected.accounting
    say(accounting.line())
    for entry in collected.metrics if metrics else ():
        numbers = {k: v for k, v in entry["key_metrics"].items() if isinstance(v, int | float)}
        print_table(
            ("key metric", "value"),
            [(name, f"{value:.4g}") for name, value in numbers.items()],
            title=entry["agent_ref"]["name"],
            right="value",
        )
    if collected.aggregation_problem:
        notice(f"warning: no aggregate metrics: {collected.aggregation_problem}")
    for path in prepared.paths.all():
        if path.exists():
            say(f"  {shown(path)}")
    if collected.covered(settings.min_coverage):
        return 0
    for kind, message in _first_failures(prepared.paths.failures):
        notice(f"{kind}: {message}")
    error = RunFailed(
        f"coverage {accounting.coverage:.1%} is below the minimum of {settings.min_coverage:.1%}",
        hint=f"{prepared.paths.failures} says why, rollout by rollout; "
        "--resume with a higher max_attempts tries those again that may succeed; after mending "
        "an environment, --overwrite starts afresh",
    )
    notice(f"error: {error.message}")
    notice(f"hint: {error.hint}")
    return error.exit_code


def _first_failures(path: Path) -> list[tuple[str, str]]:
    """One message for each class of failure: enough to know what to look for."""
    first: dict[str, str] = {}
    if path.exists():
        for line in read_jsonl(path):
            first.setdefault(str(line.row[FAILURE_CLASS]), str(line.row["message"]))
    return sorted(first.items())


def _code(instance: InstanceConfig) -> str:
    """A digest of the user's own code behind an instance; empty for what ships with Palestra."""
    files = [Path(str(instance.settings["path"]))] if "path" in instance.settings else []
    if instance.folder is not None and not instance.folder.is_relative_to(PACKAGE_ROOT):
        files.append(instance.folder / instance.entrypoint)
    held = b"".join(file.read_bytes() for file in files if file.is_file())
    return hashlib.sha256(held).hexdigest() if held else ""


async def unless(broken: Awaitable[None], work: Awaitable[T]) -> T:
    """The result of `work`, unless `broken` raises first: then that error, and work is undone."""
    guard = asyncio.ensure_future(broken)
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait({guard, working}, return_when=asyncio.FIRST_COMPLETED)
        if guard.done() and not working.done():
            working.cancel()
            await asyncio.wait({working})
            await guard
        return await working
    except BaseException as error:
        raise first_cause(error) from None
    finally:
        for task in (guard, working):
            task.cancel()
        await asyncio.gather(guard, working, return_exceptions=True)


@contextlib.asynccontextmanager
async def _reach(config: ResolvedConfig) -> AsyncIterator[Reachable]:
    """The running fleet, or one made from the configuration when none runs."""
    raise_descriptor_limit()
    http = http_transport(config.tree)
    address = HeadAddress.from_tree(config.tree)
    try:
        running = await _running(config, address, http)
        if running is None:
            async with embedded(config) as fleet:
                yield fleet
            return
        token = str(config.tree.get("fleet_token") or "")
        yield Reachable(
            client=server_client(running.targets(), config.tree, token=token, http=http),
            config=config_from_tree(yaml.safe_load(running.config_yaml) or {}),
            watch=lambda: _head_gone(running.address, http),
        )
    finally:
        await http.aclose()


async def _running(
    config: ResolvedConfig, address: HeadAddress, http: HttpTransport
) -> AttachedFleet | None:
    """The fleet that this collection belongs to; None when it brings its own servers."""
    try:
        running = await attach(address, http)
    except NoFleet:
        if not config.instances:
            raise
        return None
    except ForeignFleet as error:
        if not config.instances:
            raise
        notice(f"{error.message}: running the servers inside this command")
        return None
    missing = config.instances.keys() - running.targets().keys()
    if missing:
        notice(
            f"the fleet at {running.address.url} has no {', '.join(sorted(missing))}: "
            "running the servers inside this command"
        )
        return None
    return running


@contextlib.asynccontextmanager
async def embedded(config: ResolvedConfig) -> AsyncIterator[Reachable]:
    """A fleet inside this process."""
    fleet = Fleet(
        config, default_placement=EMBEDDED, on_line=lambda who, text: notice(f"[{who}] {text}")
    )
    async with fleet:
        show_instances(fleet.instances.values())
        try:
            await wait_for_endpoints(fleet)
        except ExceptionGroup as group:
            raise first_cause(group) from None
        yield Reachable(client=fleet.client, config=config, watch=fleet.watch)


async def _head_gone(address: HeadAddress, http: Any) -> None:
    """Raise when the fleet's head server has stopped answering."""
    misses = 0
    while misses < 3:
        await asyncio.sleep(HEAD_CHECK_EVERY_S)
        try:
            await attach(address, http)
            misses = 0
        except (PalestraError, OSError):
            misses += 1
    raise RunFailed(
        f"the fleet at {address.url} is gone",
        hint="its own terminal says why; start it again and go on with ++resume_from_cache=true",
    )


def _own_settings(tree: Any, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """An instance's settings, secrets masked."""
    block = next(iter(next(iter(tree[name].values())).values()))
    return {key: block[key] for key in settings if key in block}


__all__ = ["Reachable", "collect", "collect_with", "embedded", "stoppable", "unless"]

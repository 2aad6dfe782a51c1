"""`serve-rollouts`: a fleet whose rollouts trainers ask for over HTTP."""

import signal
from functools import partial

from palestra.cli.console import masking, notice, say, warn_all
from palestra.cli.loop import CommandStopped, run_to_end
from palestra.config import ConfigTree, ResolvedConfig
from palestra.errors import ConfigError
from palestra.fleet import HeadAddress
from palestra.settings import ServeRolloutsArgs, load
from palestra.training import (
    ClientSettings,
    OnStale,
    RolloutClient,
    attached,
    serve_rollouts,
    service_token,
)


def serve(args: ServeRolloutsArgs, overrides: list[str], *, extra: ConfigTree) -> int:
    """Serve until stopped. Raises ConfigError: no servers are named, or a needed token is missing."""
    token = service_token(args.host)
    config = load(overrides, ng=False, extra=extra, require_all=not args.attached)
    warn_all(config.warnings)
    try:
        with masking(config.secrets):
            run_to_end(_serve(args, config, token))
    except CommandStopped as stopped:
        notice("stopped")
        # Ctrl-C is how a service is meant to end.
        return 0 if stopped.signal is signal.SIGINT else stopped.exit_code
    return 0


async def _serve(args: ServeRolloutsArgs, config: ResolvedConfig, token: str) -> None:
    settings = ClientSettings(
        agent=args.agent,
        in_flight=args.in_flight,
        token_ids=args.token_ids,
        max_staleness=args.max_staleness,
        on_stale=OnStale(args.on_stale),
        rollout_timeout_s=args.rollout_timeout_s,
    )
    if args.attached:
        client = RolloutClient(attached(HeadAddress.from_tree(config.tree)), settings)
    elif config.instances:
        notice(f"starting {len(config.instances)} servers …")
        client = RolloutClient(config, settings)
    else:
        raise ConfigError(
            "no server instance is configured",
            hint="name config files (-c a.yaml), or use a running fleet: --attached",
        )
    ready = partial(_announce, token=token)
    await serve_rollouts(client, args.host, args.port, lease_s=args.lease_s, ready=ready)


def _announce(url: str, *, token: str) -> None:
    notice("rollout service ready; stop it with Ctrl-C")
    say(url)
    if not token:
        notice("without PALESTRA_ROLLOUTS_TOKEN, every program of this machine can use it")

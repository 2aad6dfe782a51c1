"""`serve-rollouts`: a fleet whose rollouts trainers ask for over HTTP."""

from functools import partial

from palestra.cli.console import masking, notice, say, warn_all
from palestra.cli.loop import serve_until_stopped
from palestra.config import ConfigTree, ResolvedConfig
from palestra.errors import ConfigError
from palestra.fleet import HeadAddress
from palestra.settings import ServeRolloutsArgs, load
from palestra.training import (
    Attempts,
    ClientSettings,
    OnStale,
    OnViolation,
    RolloutClient,
    attached,
    serve_rollouts,
    service_token,
)


def serve(args: ServeRolloutsArgs, overrides: list[str], *, extra: ConfigTree) -> int:
    """Serve until stopped. Raises ConfigError: no servers are named, or a needed token is missing."""
    token = service_token(args.host)
    settings = client_settings(args)
    config = load(overrides, ng=False, extra=extra, require_all=not args.attached)
    warn_all(config.warnings)
    with masking(config.secrets):
        return serve_until_stopped(_serve(args, settings, config, token))


def client_settings(args: ServeRolloutsArgs) -> ClientSettings:
    """Return the settings of the service's client. Raises ConfigError: a value is invalid."""
    return ClientSettings(
        agent=args.agent,
        in_flight=args.in_flight,
        token_ids=args.token_ids,
        max_staleness=args.max_staleness,
        on_stale=OnStale(args.on_stale),
        on_invalid_logprobs=OnViolation(args.on_invalid_logprobs),
        on_discontinuity=OnViolation(args.on_discontinuity),
        attempts=_attempts(args),
        rollout_timeout_s=args.rollout_timeout_s,
    ).checked()


def _attempts(args: ServeRolloutsArgs) -> Attempts:
    """Return the attempts for each failure class: the default of a class that the flags leave out."""
    return Attempts(most={**Attempts().most, **args.attempts}, nan_retries=args.nan_retries)


async def _serve(
    args: ServeRolloutsArgs, settings: ClientSettings, config: ResolvedConfig, token: str
) -> None:
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

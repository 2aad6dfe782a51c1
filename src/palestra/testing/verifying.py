"""One answer before one verifier, without a fleet around it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palestra.config import ServerType, config_from_tree, load_config
from palestra.conformance import Door, LoopGuard, Player, Verdict, door_of
from palestra.fleet import assembled, build_server, load_server_class, server_client
from palestra.sandbox.workers.started import nurseries_kept
from palestra.schema import (
    JUDGE_REPLAY,
    TOOL_FAILURES,
    OutputItem,
    Response,
    read_jsonl,
    response_of,
)
from palestra.server import VERIFY, Environment, ResourcesServer, overran, server_class_of
from palestra.testing.interrupting import Interruption, LoopBlocked
from palestra.testing.places import OF_ONE_TEST, config_of, data_file_of, entrypoint_of

Subject = ResourcesServer | type[ResourcesServer] | Environment | str | Path
"""A server, its class, an `@environment`, or the folder or name of an environment."""

TIMEOUT_S = 60.0


def server_of(environment: Subject, **settings: Any) -> ResourcesServer:
    """A server to be tested; `settings` are those of its config."""
    if isinstance(environment, ResourcesServer):
        return environment
    configured = _configured(environment) if isinstance(environment, str | Path) else None
    if configured is not None and not settings:
        return configured
    cls: Any = _class_of(environment)
    config_model = cls.model_fields["config"].annotation
    config = config_model.model_validate({"name": "under_test", **settings})
    made: ResourcesServer = cls(config=config, server_client=server_client({}, {}))
    return made


def _configured(environment: str | Path) -> ResourcesServer | None:
    """The server of a folder, with the settings of its own config; None when it has none."""
    path = config_of(environment)
    if path is None:
        return None
    root = path.absolute().parents[3]
    config = load_config(config_paths=[str(path)], cwd=root, required=(), use_env_yaml=False)
    for instance in config.instances_of(ServerType.RESOURCES):
        made = build_server(instance, server_client({}, {}))
        if isinstance(made, ResourcesServer):
            return made
    return None


def _class_of(environment: Any) -> Any:
    if isinstance(environment, Environment):
        return server_class_of(environment)
    if not isinstance(environment, str | Path):
        return environment
    return load_server_class(entrypoint_of(environment))


def verify(
    environment: Subject,
    row: Mapping[str, Any],
    answer: str | OutputItem | Response,
    *,
    stored: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Verdict:
    """What comes of an answer: seeded, its calls run, verified, in a session of its own.

    `stored`: verified alone, as a rollout whose session is gone. An author's code that does not
    return is interrupted after `timeout_s`; the failure names its function, file and line.
    """
    response = answer if isinstance(answer, Response) else response_of(answer)
    with nurseries_kept(OF_ONE_TEST):
        server = server_of(environment)
        try:
            return asyncio.run(_verified(server, row, response, timeout_s, stored=stored))
        except LoopBlocked as blocked:
            failure = overran(server.name, VERIFY, blocked.place(), timeout_s)
            return Verdict(None, timeout_s, timeout_s, failure=failure, timed_out=True)


async def _verified(
    server: ResourcesServer,
    row: Mapping[str, Any],
    response: Response,
    timeout_s: float,
    *,
    stored: bool,
) -> Verdict:
    name = server.name
    interruption = Interruption(timeout_s)
    async with (
        assembled(config_from_tree({}), (), {name: server}) as assembly,
        LoopGuard(interruption.wake, frozen_s=timeout_s) as guard,
    ):
        door: Door = await door_of(assembly.client, name)
        player = Player(assembly.client, door, guard, timeout_s=timeout_s)
        with interruption.watching(guard):
            return await player.verify(row, response, stored=stored)


def assert_verifies(
    environment: Subject,
    row: Mapping[str, Any],
    answer: str | OutputItem | Response,
    reward: float,
) -> None:
    """Assert that an answer gets exactly this reward; what it got, or why none, is told."""
    _assert_reward(verify(environment, row, answer), reward)


def assert_recorded_rewards(folder: str | Path) -> None:
    """Assert that an environment gives its recorded example rollouts their rewards again."""
    path = data_file_of(folder, "example_rollouts.jsonl")
    for line in read_jsonl(path):
        row = {**line.row, JUDGE_REPLAY: True}
        response = Response.model_validate(row.pop("response"))
        reward = row.pop("reward")
        verdict = verify(folder, row, response, stored=True)
        try:
            _assert_reward(verdict, reward)
        except AssertionError as error:
            raise AssertionError(f"{path.name} line {line.number}: {error}") from None


def _assert_reward(verdict: Verdict, reward: float) -> None:
    if verdict.failure is not None:
        raise AssertionError(f"no reward: {verdict.failure.message}")
    if verdict.timed_out:
        raise AssertionError(f"not verified within {TIMEOUT_S:g} s")
    if verdict.reward != reward:
        raise AssertionError(f"got {verdict.reward:g}, not {reward:g}{_broken_tools(verdict)}")


def _broken_tools(verdict: Verdict) -> str:
    """What the tools that broke on the way raised; empty when none did."""
    told = (verdict.reported or {}).get(TOOL_FAILURES) or []
    raised = [f"{fault['tool']} raised {fault['type']}: {fault['message']}" for fault in told]
    return f" (its tools broke: {'; '.join(raised)})" if raised else ""

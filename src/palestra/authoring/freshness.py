"""Whether an environment's data still belongs together: its rows, its server, recorded rollouts."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from palestra.config import InstanceConfig, ServerType, load_config
from palestra.datasets import Door, DoorKeeper, doors_in, rows_are_whole
from palestra.fleet import build_server, server_client
from palestra.schema import CREATE_PARAMS, plain_input
from palestra.server import Server

MOST_TOLD: Final = 5
_RECORD: Final = "palestra test --record records them anew"


def rejected_rows(folder: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Which rows the environment's own request models reject, and why; empty when none is."""
    keeper = DoorKeeper(list(_doors(folder)))
    found = [
        f"row {number}: {problem}"
        for number, row in enumerate(rows)
        for problem in keeper.problems(row)
    ]
    more = f"; and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
    return "; ".join(found[:MOST_TOLD]) + more


def foreign_rollouts(
    rollouts: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> str:
    """Which rollouts are of none of the rows, by their prompts; empty when all are of one."""
    prompts = [_messages(row) for row in rows]
    foreign = [
        number
        for number, rollout in enumerate(rollouts)
        # An environment that takes turns puts its opening behind the prompt.
        if not any(_messages(rollout)[: len(prompt)] == prompt for prompt in prompts)
    ]
    if not foreign:
        return ""
    which = ", ".join(map(str, foreign[:MOST_TOLD]))
    return f"rollouts of none of the rows in example.jsonl: {which}; {_RECORD}"


def _messages(row: Mapping[str, Any]) -> list[Any]:
    params = row.get(CREATE_PARAMS)
    given = plain_input(params.get("input")) if isinstance(params, Mapping) else None
    return given if isinstance(given, list) else [given]


def _doors(folder: Path) -> Iterator[Door]:
    """What the folder's environment publishes; nothing where it cannot be made here.

    It may need packages that only its own interpreter has: then its tests have to say.
    """
    try:
        config = load_config(
            config_paths=[str(folder / "configs" / f"{folder.name}.yaml")],
            cwd=folder.parents[1],
            required=(),
            use_env_yaml=False,
        )
        own = [i for i in config.instances_of(ServerType.RESOURCES) if i.folder == folder]
        servers = [(instance, build_server(instance, server_client({}, {}))) for instance in own]
        agents = config.instances_of(ServerType.AGENT)
        for instance, server in servers:
            whole = all(_whole(agent) for agent in agents if _names(agent, instance.name))
            yield from _published(server, instance.name, whole=whole)
    except Exception:  # whatever an author's code raises, its tests tell it better
        return


def _published(server: Server, name: str, *, whole: bool) -> list[Door]:
    document = server.setup_webserver().openapi()
    return doors_in(document, name, ("/seed_session", "/verify"), whole=whole)


def _names(agent: InstanceConfig, environment: str) -> bool:
    return any(ref.name == environment for ref in agent.refs)


def _whole(agent: InstanceConfig) -> bool:
    environments = agent.referenced(ServerType.RESOURCES)
    return rows_are_whole(is_shipped=agent.is_shipped, environments=environments)

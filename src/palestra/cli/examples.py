"""Example rollouts of an environment, recorded, and its example rows, counted.

Writes `data/example_rollouts.jsonl` and `data/example_metrics.json`. A rollout is a real one,
through the environment's own agent. The model is the environment's `gold_response` (else the first
right answer of `data/verifier_cases.jsonl`; the first that calls tools, where the gold calls none),
and `recorded_with` says `gold`; rows without one are answered by the local model, and it says
`local_model`. A judge, where there is one, awards.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palestra.cli.subjects import EXAMPLE_ROLLOUTS, find_subject
from palestra.config import ServerType, load_config
from palestra.conformance import ExaminedEnvironment
from palestra.datasets import metrics_of
from palestra.errors import ConfigError
from palestra.fleet import assembled, build_server, server_client
from palestra.schema import (
    CREATE_PARAMS,
    FunctionCall,
    OutputMessage,
    Response,
    RunRequest,
    VerifyResponse,
    encode_json,
    response_of,
    to_plain,
)
from palestra.server import ResourcesServer, TurnsServer
from palestra.testing import ScriptedModel

LOCAL = "responses_api_models/local_model/configs/local_model.yaml"
AWARDS = "[[A=B]]"
MOST_TOKENS = 64
_TOLD = {"gold": "the declared right answer", "local_model": "the local model"}


def record(name: str) -> list[str]:
    """Record one environment; a line for each rollout: its row, who answered, its reward."""
    subject = find_subject(name, [])
    folder = subject.config.instance(subject.name).folder
    if folder is None:
        raise ConfigError(f"{name} has no folder to write to")
    rollouts = asyncio.run(_recorded(subject))
    lines = b"".join(encode_json(row) + b"\n" for row in rollouts)
    (folder / "data" / EXAMPLE_ROLLOUTS).write_bytes(lines)
    _write_metrics(subject, folder / "data")
    return [
        f"row {row['_ng_task_index']}: reward {row['reward']:g}, from {_TOLD[row['recorded_with']]}"
        for row in rollouts
    ]


def _write_metrics(subject: ExaminedEnvironment, data: Path) -> None:
    dataset = _dataset(subject)
    found = {**dataset, **metrics_of(subject.rows)}
    (data / "example_metrics.json").write_text(json.dumps(found, indent=4) + "\n")


def _dataset(subject: ExaminedEnvironment) -> dict[str, Any]:
    for agent in subject.config.instances_of(ServerType.AGENT):
        for dataset in agent.datasets:
            if dataset.get("type") == "example":
                return dict(dataset)
    return {}


async def _recorded(subject: ExaminedEnvironment) -> list[dict[str, Any]]:
    instance = subject.config.instance(subject.name)
    server = build_server(instance, server_client({}, {}))
    if not isinstance(server, ResourcesServer):
        raise ConfigError(f"{subject.name} is no resources server")
    rows = []
    for number, row in enumerate(subject.rows):
        gold = _gold(subject, server, number, row)
        if gold is None:
            result = await _run(subject, row, None)
        else:
            turns = _turns(gold, takes_turns=isinstance(server, TurnsServer))
            result = await _run(subject, row, ScriptedModel.saying(*turns, *[AWARDS] * 4))
        kind = "local_model" if gold is None else "gold"
        rows.append(
            {"_ng_task_index": number, "_ng_rollout_index": 0, **result, "recorded_with": kind}
        )
    return rows


def _gold(
    subject: ExaminedEnvironment, server: ResourcesServer, number: int, row: Mapping[str, Any]
) -> Response | None:
    right = [case.response for case in subject.cases if case.number == number and case.reward > 0]
    gold = server.gold_response(row)
    if gold is None or not _calls(gold):
        # A right answer that comes by its tools shows more than one that knows.
        gold = next(filter(_calls, right), gold)
    return right[0] if gold is None and right else gold


def _calls(response: Response) -> bool:
    return any(isinstance(item, FunctionCall) for item in response.output)


def _turns(gold: Response, *, takes_turns: bool) -> list[Response]:
    """The gold as a model gives it: calls, then what follows them; or a message a turn."""
    if takes_turns:
        return [response_of(item) for item in gold.output]
    calls = [item for item in gold.output if isinstance(item, FunctionCall)]
    messages = [item for item in gold.output if isinstance(item, OutputMessage)]
    if not calls:
        return [gold]
    return [response_of(*calls), response_of(*messages)]


async def _run(
    subject: ExaminedEnvironment, row: Mapping[str, Any], model: ScriptedModel | None
) -> dict[str, Any]:
    """One rollout through the environment's agent; without a model, of the local one."""
    instance = subject.config.instance(subject.name)
    if instance.folder is None:
        raise ConfigError(f"{subject.name} has no folder")
    config_path = instance.folder / "configs" / f"{instance.folder.name}.yaml"
    paths = [str(config_path), *([] if model else [LOCAL])]
    config = load_config(
        config_paths=paths, cwd=instance.folder.parents[1], required=(), use_env_yaml=False
    )
    models = {
        name: model
        for other in config.instances.values()
        for name in other.referenced(ServerType.MODEL)
        if model is not None
    }
    if model is None:
        params = {**row[CREATE_PARAMS], "max_output_tokens": MOST_TOKENS, "temperature": 0.0}
        row = {**row, CREATE_PARAMS: params}
    async with assembled(config, list(config.instances), models) as assembly:
        (agent,) = config.instances_of(ServerType.AGENT)
        body = RunRequest.model_validate(row)
        answer = await assembly.client.peer(agent.name).call("/run", body, VerifyResponse)
        reference = {"type": str(agent.type), "name": agent.name}
        return {**to_plain(answer), "agent_ref": reference}

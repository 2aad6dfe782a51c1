"""Rows against the request models of the servers they will meet, before the first rollout.

Servers publish those models as JSON Schema in their `/openapi.json`. A row that an agent's `/run`
or its environment's `/seed_session` or `/verify` would reject with a 422 after a night of model
calls is found here, with its line.

A check must never refuse what the server would take. Request models coerce scalars ("5" is a
number to them), so scalars pass as each other; and a model that transforms its input before it
looks at it says so in its schema and is left out.
"""

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from palestra.errors import CallError
from palestra.rollouts.prepare import PreparedRun
from palestra.rollouts.problems import RowProblems
from palestra.schema import AGENT_REF, CREATE_PARAMS, TASK_INDEX, TRANSFORMS, read_jsonl
from palestra.transport import CallContext, ServerClient, calling

ANSWER_WITHIN_S = 30.0
MADE_BY_THE_RUN = frozenset({CREATE_PARAMS, "response"})
"""Fields that are checked already (the parameters) or come later (the trajectory)."""
SCALARS = {"integer", "number", "boolean"}


@dataclass(frozen=True, slots=True)
class Door:
    """One endpoint that a row has to pass: what its server accepts, as JSON Schema."""

    server: str
    path: str
    schema: dict[str, Any]


async def check_rows(
    planned: PreparedRun,
    client: ServerClient,
    environments: Mapping[str, tuple[str, ...]],
    *,
    forwarding: Collection[str] = (),
) -> None:
    """Raise InputDataError naming every row that a server would reject.

    `environments`: agent -> the resources servers behind it. `forwarding`: the agents known to
    forward rows unchanged; any other may supply fields of its own to its environment, and an
    agent of several environments may choose what each is given. There, only what a row has is
    checked. A server that publishes nothing is not checked against.
    """
    doors: dict[str, list[Door]] = {}
    for agent, servers in environments.items():
        doors[agent] = await doors_of(client, agent, ("/run",))
        whole = agent in forwarding and len(servers) == 1
        for server in servers:
            doors[agent] += await doors_of(
                client, server, ("/seed_session", "/verify"), whole=whole
            )
    if any(doors.values()):
        await asyncio.to_thread(_check, planned, doors)


async def doors_of(
    client: ServerClient,
    server: str,
    paths: tuple[str, ...],
    *,
    whole: bool = True,
) -> list[Door]:
    """What `server` publishes about the bodies of `paths`; `whole`: rows are all of a body."""
    try:
        with calling(CallContext(deadline=time.monotonic() + ANSWER_WITHIN_S)):
            reply = await client.get(server, "/openapi.json", stateless=True)
        document = await reply.json() if reply.ok else {}
    except (CallError, ValueError):
        return []  # what is wrong with the server is found, and said better, by its first call
    return [
        Door(server, path, schema)
        for path in paths
        if (schema := _published(document, path, whole=whole)) is not None
    ]


def _published(document: Any, path: str, *, whole: bool) -> dict[str, Any] | None:
    """The JSON Schema of a body, made lenient; None where there is none to hold a row to."""
    try:
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"][
            "schema"
        ]
    except (KeyError, TypeError):
        return None
    if not isinstance(schema, Mapping):
        return None
    # References of FastAPI's own routes lead into the document.
    return published_body(schema, document.get("components", {}), whole=whole)


def published_body(
    schema: Mapping[str, Any], components: Any, *, whole: bool = True
) -> dict[str, Any] | None:
    """`schema` made lenient; None when its model transforms its input.

    `whole`: a row is all of the body, so that what is required must be there.
    """
    if schema.get(TRANSFORMS):
        return None
    given = schema.get("properties", {})
    left_out = MADE_BY_THE_RUN | {
        name for name, held in given.items() if isinstance(held, Mapping) and held.get(TRANSFORMS)
    }
    needed = [name for name in schema.get("required", ()) if whole and name not in left_out]
    properties = {name: name in left_out or lenient(held) for name, held in given.items()}
    made = {**lenient(schema), "required": needed, "properties": properties}
    return {**made, "components": lenient(components)}


def lenient(schema: Any) -> Any:
    """`schema` with numbers and booleans accepted as any scalar, and `oneOf` as any of."""
    if isinstance(schema, list):
        return [lenient(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {key: lenient(value) for key, value in schema.items()}
    if isinstance(made.get("oneOf"), list):
        # Lenient choices overlap, and pydantic goes by the tag, or a function of the author's.
        made["allOf"] = [*made.get("allOf", ()), {"anyOf": made.pop("oneOf")}]
    kind = schema.get("type")
    if isinstance(kind, str) and kind in SCALARS:
        made["type"] = [*sorted(SCALARS), "string"]
    return made


def _check(planned: PreparedRun, doors: Mapping[str, list[Door]]) -> None:
    from jsonschema_rs import ValidationError, validator_for

    validators: dict[str, list[tuple[Door, Any]]] = {}
    for agent, found in doors.items():
        for door in found:
            try:
                validators.setdefault(agent, []).append((door, validator_for(door.schema)))
            except (ValidationError, ValueError):
                continue  # a schema of some other draft: the server itself will have to say
    problems = RowProblems()
    seen: set[int] = set()
    for line in read_jsonl(planned.inputs):
        task = line.row[TASK_INDEX]
        if task in seen:
            continue
        seen.add(task)
        for door, validator in validators.get(line.row[AGENT_REF]["name"], ()):
            for problem in _problems(door, validator, line.row):
                problems.add(*planned.places[task], problem)
    problems.raise_if_any(
        hint="these rows would be rejected when they get there; mend them, or the request model "
        "of that server"
    )


def _problems(door: Door, validator: Any, row: Mapping[str, Any]) -> Iterator[str]:
    for error in validator.iter_errors(row):
        pointer = "".join(f"/{part}" for part in error.instance_path)
        message = error.message if len(error.message) < 200 else f"{error.message[:200]} ..."
        yield f"{pointer or '/'}: {message} (asked by {door.server}{door.path})"

"""`palestra status --rollouts`: what every rollout in flight waits for, and for how long."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.cli.announcing import Announcement, announcements, ask
from palestra.cli.console import notice, say, say_json
from palestra.cli.loop import run_to_end
from palestra.cli.tables import print_table
from palestra.config import ConfigTree
from palestra.errors import CallError, PalestraError
from palestra.fleet import AttachedFleet, HeadAddress, attach, http_transport
from palestra.schema import JsonDict, JsonObject
from palestra.server import IN_FLIGHT_PATH
from palestra.settings import load
from palestra.system import shown
from palestra.transport import HttpRequest, HttpTransport

SHOWN: Final = 20
ASK_SERVER_S: Final = 3.0


@dataclass(slots=True)
class Seen:
    """What has been found out. `servers`: requests that servers of a running fleet answer now."""

    collections: list[tuple[Announcement, JsonDict | None]]
    servers: list[JsonDict] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    """Servers that did not answer in time: something holds their event loops."""


def rollouts_status(overrides: list[str], *, as_json: bool = False) -> int:
    """Print what is in flight in every collection of this user on this machine.

    Exit code 1 when none runs, or none answers.
    """
    tree = load(overrides, ng=False, require_all=False).tree
    seen = run_to_end(_seen(tree))
    answered = [
        (where, with_servers(told, seen.servers)) for where, told in seen.collections if told
    ]
    if as_json:
        say_json(_as_json(seen, answered))
        return 0 if answered else 1
    if not seen.collections:
        say("No collection of yours is running on this machine.")
    for where, told in seen.collections:
        if told is None:
            say(f"{shown(Path(where.output))} (process {where.pid}) does not answer")
            notice(f"hint: kill -USR1 {where.pid} makes it print what its threads and tasks do")
    for where, told in answered:
        _print(where, told)
    for name in seen.silent:
        say(f"{name} does not answer: something holds its event loop")
        notice("hint: `palestra status` has its pid; kill -USR1 makes it print its tasks")
    return 0 if answered else 1


async def _seen(tree: ConfigTree) -> Seen:
    found = announcements()
    told = await asyncio.gather(*(asyncio.to_thread(ask, where) for where in found))
    seen = Seen(list(zip(found, told, strict=True)))
    http = http_transport(tree)
    try:
        with contextlib.suppress(PalestraError):
            await _ask_servers(seen, await attach(HeadAddress.from_tree(tree), http), http)
    finally:
        await http.aclose()
    return seen


async def _ask_servers(seen: Seen, fleet: AttachedFleet, http: HttpTransport) -> None:
    token = fleet.address.token
    headers = {"authorization": f"Bearer {token}"} if token else {}

    async def ask_one(name: str, url: str) -> None:
        request = HttpRequest(
            "GET", url + IN_FLIGHT_PATH, headers, timeout_s=ASK_SERVER_S, direct=True
        )
        try:
            reply = await http.send(request)
        except CallError:
            seen.silent.append(name)
            return
        with contextlib.suppress(ValueError):
            listed = orjson.loads(reply.body)
            seen.servers += listed if isinstance(listed, list) else []

    targets = fleet.targets().values()
    await asyncio.gather(*(ask_one(t.name, url) for t in targets for url in t.urls if url))


def with_servers(told: JsonDict, servers: Iterable[JsonObject]) -> JsonDict:
    """What a collection said, with what the innermost server awaits where that is known.

    The youngest request of a rollout is the innermost one: each server calls the next.
    """
    innermost: dict[tuple[Any, ...], JsonObject] = {}
    for call in servers:
        if call.get("row"):
            key = tuple(call["row"])
            if key not in innermost or call["age_s"] < innermost[key]["age_s"]:
                innermost[key] = call
    for one in told["in_flight"]:
        call = innermost.get((told["run"], one["task"], one["rollout"], one["attempt"]), {})
        if call:
            doing = call["awaiting"] or call["phase"]
            one["awaiting"] = f"{call['server']}{call['path']}: {doing}"
            one["phase"] = call["phase"] if call["awaiting"] else one["phase"]
            one["awaiting_s"] = call["awaiting_s"]
    return told


def _as_json(seen: Seen, answered: Sequence[tuple[Announcement, JsonDict]]) -> JsonDict:
    collections = [{"pid": w.pid, "output": w.output, **told} for w, told in answered]
    mute = [{"pid": w.pid, "output": w.output} for w, told in seen.collections if told is None]
    return {"collections": collections, "not_answering": mute, "silent_servers": seen.silent}


def _print(where: Announcement, told: JsonObject) -> None:
    listed: list[JsonDict] = told["in_flight"]
    say(
        f"{shown(Path(where.output))} (process {where.pid}): {told['scored']} scored and "
        f"{told['failed']} failed of {told['requested']} in {told['elapsed_s']:.0f} s; "
        f"{len(listed)} in flight"
    )
    if told["last_failure"]:
        say(f"last failure: {told['last_failure']}")
    kinds: dict[tuple[str, str], list[float]] = {}
    for one in listed:
        kinds.setdefault((one["phase"], one["awaiting"]), []).append(one["awaiting_s"])
    if len(listed) > 1:
        print_table(
            ("phase", "awaiting", "rollouts", "longest s"),
            [
                (phase, awaiting or "its own code", len(ages), f"{max(ages):.1f}")
                for (phase, awaiting), ages in sorted(kinds.items(), key=lambda k: -len(k[1]))
            ],
            right="rollouts,longest s",
        )
    if not listed:
        return
    oldest = sorted(listed, key=lambda one: -one["age_s"])[:SHOWN]
    print_table(
        ("rollout", "attempt", "agent", "phase", "awaiting", "for s", "age s"),
        [
            (
                f"{one['task']}:{one['rollout']}",
                one["attempt"],
                one["agent"],
                one["phase"],
                one["awaiting"] or "its own code",
                f"{one['awaiting_s']:.1f}",
                f"{one['age_s']:.1f}",
            )
            for one in oldest
        ],
        title="" if len(oldest) == len(listed) else f"the {SHOWN} oldest:",
        right="for s,age s",
    )

"""`palestra status --rollouts`: print what every rollout in flight waits for, and for how long."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.cli.console import notice, say, say_json
from palestra.cli.loop import run_to_end
from palestra.cli.tables import print_table
from palestra.config import ConfigTree
from palestra.errors import CallError, PalestraError
from palestra.fleet import AttachedFleet, HeadAddress, attach, http_transport
from palestra.rollouts import Announcement, announcements, ask_collection
from palestra.schema import JsonDict, JsonObject
from palestra.server import IN_FLIGHT_PATH
from palestra.settings import load
from palestra.system import shown
from palestra.transport import HttpRequest, HttpTransport

SHOWN: Final = 20
ASK_SERVER_S: Final = 3.0


@dataclass(slots=True)
class Seen:
    """The gathered reports. `servers`: the requests in flight in the servers of a running fleet."""

    collections: list[tuple[Announcement, JsonDict | None]]
    servers: list[JsonDict] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    """The names of servers that did not answer in time, because their event loops are blocked."""


def rollouts_status(overrides: list[str], *, as_json: bool = False) -> int:
    """Print the rollouts in flight of every collection of this user on this machine.

    Exit code 1: no collection runs, or none answers.
    """
    tree = load(overrides, ng=False, require_all=False).tree
    gathered = run_to_end(_read_status(tree))
    reports = [
        (where, with_servers(report, gathered.servers))
        for where, report in gathered.collections
        if report
    ]
    if as_json:
        say_json(_as_json(gathered, reports))
        return 0 if reports else 1
    if not gathered.collections:
        say("No collection of yours is running on this machine.")
    for where, report in gathered.collections:
        if report is None:
            say(f"{shown(Path(where.output))} (process {where.pid}) does not answer")
            notice(
                f"hint: `kill -USR1 {where.pid}` makes the process print what its threads and "
                "tasks are doing"
            )
    for where, report in reports:
        _print(where, report)
    for name in gathered.silent:
        say(f"{name} does not answer: some code blocks its event loop")
        notice(
            "hint: find its process id with `palestra status`; `kill -USR1 PID` makes the "
            "process print its tasks"
        )
    return 0 if reports else 1


async def _read_status(tree: ConfigTree) -> Seen:
    running = announcements()
    reports = await asyncio.gather(*(asyncio.to_thread(ask_collection, where) for where in running))
    gathered = Seen(list(zip(running, reports, strict=True)))
    http = http_transport(tree)
    try:
        with contextlib.suppress(PalestraError):
            await _ask_servers(gathered, await attach(HeadAddress.from_tree(tree), http), http)
    finally:
        await http.aclose()
    return gathered


async def _ask_servers(gathered: Seen, fleet: AttachedFleet, http: HttpTransport) -> None:
    token = fleet.address.token
    headers = {"authorization": f"Bearer {token}"} if token else {}

    async def ask_one(name: str, url: str) -> None:
        request = HttpRequest(
            "GET", url + IN_FLIGHT_PATH, headers, timeout_s=ASK_SERVER_S, direct=True
        )
        try:
            reply = await http.send(request)
        except CallError:
            gathered.silent.append(name)
            return
        with contextlib.suppress(ValueError):
            listed = orjson.loads(reply.body)
            gathered.servers += listed if isinstance(listed, list) else []

    targets = fleet.targets().values()
    await asyncio.gather(*(ask_one(t.name, url) for t in targets for url in t.urls if url))


def with_servers(report: JsonDict, servers: Iterable[JsonObject]) -> JsonDict:
    """Return a collection's report, with what the innermost server of each rollout awaits, where
    known.

    The youngest request of a rollout is the innermost one: each server calls the next.
    """
    innermost: dict[tuple[Any, ...], JsonObject] = {}
    for call in servers:
        if call.get("row"):
            key = tuple(call["row"])
            if key not in innermost or call["age_s"] < innermost[key]["age_s"]:
                innermost[key] = call
    for rollout in report["in_flight"]:
        call = innermost.get(
            (report["run"], rollout["task"], rollout["rollout"], rollout["attempt"]), {}
        )
        if call:
            doing = call["awaiting"] or call["phase"]
            rollout["awaiting"] = f"{call['server']}{call['path']}: {doing}"
            rollout["phase"] = call["phase"] if call["awaiting"] else rollout["phase"]
            rollout["awaiting_s"] = call["awaiting_s"]
    return report


def _as_json(gathered: Seen, reports: Sequence[tuple[Announcement, JsonDict]]) -> JsonDict:
    collections = [{"pid": w.pid, "output": w.output, **report} for w, report in reports]
    mute = [
        {"pid": w.pid, "output": w.output} for w, report in gathered.collections if report is None
    ]
    return {"collections": collections, "not_answering": mute, "silent_servers": gathered.silent}


def _print(where: Announcement, report: JsonObject) -> None:
    listed: list[JsonDict] = report["in_flight"]
    say(
        f"{shown(Path(where.output))} (process {where.pid}): {report['scored']} scored and "
        f"{report['failed']} failed of {report['requested']} in {report['elapsed_s']:.0f} s; "
        f"{len(listed)} in flight"
    )
    if report.get("health"):  # a collection of an older Palestra does not say
        say(f"{report['health']}: {report['health_text']}")
    if report["last_failure"]:
        say(f"last failure: {report['last_failure']}")
    kinds: dict[tuple[str, str], list[float]] = {}
    for rollout in listed:
        kinds.setdefault((rollout["phase"], rollout["awaiting"]), []).append(rollout["awaiting_s"])
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
    oldest = sorted(listed, key=lambda rollout: -rollout["age_s"])[:SHOWN]
    print_table(
        ("rollout", "attempt", "agent", "phase", "awaiting", "for s", "age s"),
        [
            (
                f"{rollout['task']}:{rollout['rollout']}",
                rollout["attempt"],
                rollout["agent"],
                rollout["phase"],
                rollout["awaiting"] or "its own code",
                f"{rollout['awaiting_s']:.1f}",
                f"{rollout['age_s']:.1f}",
            )
            for rollout in oldest
        ],
        title="" if len(oldest) == len(listed) else f"the {SHOWN} oldest:",
        right="for s,age s",
    )

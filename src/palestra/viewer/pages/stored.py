"""The stored row of a rollout: its bytes, its JSON as a tree, commands to copy, attempts, times."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import structs

from palestra.analysis import command_of_run, completion_for
from palestra.causes import FailureMeanings
from palestra.errors import InputDataError
from palestra.records import FailedAttempt, attempt_of
from palestra.schema import (
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    RunPaths,
    is_compressed,
    read_jsonl,
    recorded_command,
)
from palestra.system import absolute_text, shown
from palestra.viewer.catalog import NoSuchRun, OpenRun
from palestra.viewer.conversation import (
    REQUEST_AND_RESPONSE,
    decoded,
    row_fields,
    small_fields,
)
from palestra.viewer.index import (
    IndexedPlace,
    IndexSnapshot,
    RunPart,
    fields_of,
    items_of,
    read_row,
)
from palestra.viewer.pages.flights import why_unscored
from palestra.viewer.pages.meanings import cause_and_action
from palestra.viewer.pages.rollout import main_place, opened
from palestra.viewer.pages.tables import key_of_row
from palestra.viewer.replies.base import NamedText, TaskName
from palestra.viewer.replies.rollout import HEAD_CHARACTERS, RANGE_BYTES
from palestra.viewer.replies.stored import (
    Attempt,
    RawRange,
    RolloutAttempts,
    RolloutCommands,
    Times,
    TimeSpan,
    Tree,
    TreeEntry,
)
from palestra.viewer.requests import NO_INDEX, PageRequest

TREE_ENTRIES: Final = 500
MOST_BODY_CHARACTERS: Final = 65_536
MOST_POINTER: Final = 64


def raw(request: PageRequest) -> RawRange:
    """Answer a range of the row's bytes."""
    _, snapshot, row = opened(request)
    row_place = main_place(snapshot, row).stored
    start = min(request.integer("start"), row_place.length)
    # with the bytes of a character that the range would cut
    piece = read_row(row_place, start=start, length=min(RANGE_BYTES, row_place.length - start))
    end = start + len(piece)
    if end < row_place.length:
        end_of_character = len(piece)
        while (
            end_of_character > len(piece) - 4
            and end_of_character > 1
            and not _ends_character(piece[:end_of_character])
        ):
            end_of_character -= 1
        piece, end = piece[:end_of_character], start + end_of_character
    text = piece.decode("utf-8", "backslashreplace")
    return RawRange(text=text, start=start, end=end, size=row_place.length)


def _ends_character(piece: bytes) -> bool:
    try:
        piece[-4:].decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"
    return True


def download(request: PageRequest) -> tuple[str, bytes]:
    """Answer the whole row, to be saved."""
    _, snapshot, row = opened(request)
    return "application/octet-stream", read_row(main_place(snapshot, row).stored)


# The tree


def tree(request: PageRequest) -> Tree:
    """Answer the members of a value of the row. No value beside its path is decoded."""
    _, snapshot, row = opened(request)
    path = request.text("path")
    value = _at(read_row(main_place(snapshot, row)), path)
    members = _members(value)
    start = request.integer("start")
    return Tree(
        path=path,
        entries=[_entry(path, k, v) for k, v in members[start : start + TREE_ENTRIES]],
        start=start,
        total=len(members),
    )


def _at(value: bytes, path: str) -> bytes:
    steps = path.split("/")[1:] if path else []
    if len(steps) > MOST_POINTER:
        raise InputDataError(
            f"the path has {len(steps)} steps; at most {MOST_POINTER} are followed"
        )
    for step in steps:
        name = step.replace("~1", "/").replace("~0", "~")
        members = dict(_members(value))
        if name not in members:
            raise NoSuchRun(f"the row has no {path[:200]}")
        value = members[name]
    return value


def _members(value: bytes) -> list[tuple[str, bytes]]:
    value = value.lstrip()
    raw = msgspec.Raw(value)
    try:
        if value.startswith(b"["):
            return [(str(number), bytes(item)) for number, item in enumerate(items_of(raw))]
        return [(name, bytes(item)) for name, item in fields_of(raw).items()]
    except (ValueError, RecursionError) as error:
        raise InputDataError(f"this is not JSON: {error}") from error


def _entry(path: str, name: str, value: bytes) -> TreeEntry:
    step = name.replace("~", "~0").replace("/", "~1")
    kind, size, text = _described(value)
    return TreeEntry(key=name, path=f"{path}/{step}", kind=kind, size=size, text=text)


def _described(value: bytes) -> tuple[Any, int, str]:
    first = value.lstrip()[:1]
    if first in {b"{", b"["}:
        return ("object" if first == b"{" else "array"), len(_members(value)), ""
    if first == b'"':
        text = decoded(value) if len(value) <= RANGE_BYTES else _cut_text(value)
        return "text", len(text), text[:HEAD_CHARACTERS]
    kinds = {b"t": "boolean", b"f": "boolean", b"n": "null"}
    return kinds.get(first, "number"), 0, value.decode("utf-8", "replace")[:40]


def _cut_text(value: bytes) -> str:
    return value[1:-1].decode("utf-8", "replace")


# Commands


def commands(request: PageRequest) -> RolloutCommands:
    """Answer commands about a rollout to copy, of printable ASCII only."""
    run, snapshot, row = opened(request)
    row_place = main_place(snapshot, row)
    task, rollout = key_of_row(snapshot, row)
    reverify, missing = _reverify(run, snapshot, row, task, rollout)
    lines = {
        "link": _link(run, task, rollout, row),
        "jq": _jq(row_place, task, rollout),
        "curl": _curl(snapshot, row, run.head().model),
        "reverify": reverify,
    }
    return RolloutCommands(
        commands=[NamedText(name=name, value=text) for name, text in lines.items() if text],
        missing=missing,
    )


def _link(run: OpenRun, task: TaskName | None, rollout: int | None, row: int) -> str:
    if task is None or rollout is None:
        return f"/r/{run.place.id}/t/{NO_INDEX}/{NO_INDEX}?row={row}"
    return f"/r/{run.place.id}/t/{quote(str(task), safe='')}/{rollout}"


def _jq(row_place: IndexedPlace, task: TaskName | None, rollout: int | None) -> str:
    name = str(row_place.path)
    reader = {".gz": "zcat", ".zst": "zstdcat"}.get(row_place.path.suffix, "cat")
    if task is None or rollout is None:
        line = f"{reader} {shell_word(name)} | sed -n {row_place.line}p | jq ."
        return line if reader != "cat" else f"sed -n {row_place.line}p {shell_word(name)} | jq ."
    chosen = f".{TASK_INDEX} == {json.dumps(task)} and .{ROLLOUT_INDEX} == {rollout}"
    program = shell_word(f"select({chosen})")
    if is_compressed(row_place.path):
        return f"{reader} {shell_word(name)} | jq {program}"
    return f"jq {program} {shell_word(name)}"


def _curl(snapshot: IndexSnapshot, row: int, model: str) -> str:
    """Return the first request of the rollout, for any endpoint of the Responses API. `model`: the
    run's; empty when unknown.
    """
    row_place = snapshot.place(row, RunPart.INPUT) or main_place(snapshot, row)
    params = row_fields(row_place).get(CREATE_PARAMS)
    if params is None or len(bytes(params)) > RANGE_BYTES:
        return ""
    body = decoded(bytes(params))
    if not isinstance(body, dict):
        return ""
    body.setdefault("model", model or "MODEL")
    return (
        'curl "$BASE_URL/responses" -H "Authorization: Bearer $API_KEY" '
        f"-H 'Content-Type: application/json' -d {shell_word(json.dumps(body))}"
    )


def _reverify(
    run: OpenRun,
    snapshot: IndexSnapshot,
    row: int,
    task: TaskName | None,
    rollout: int | None,
) -> tuple[str, str]:
    """Return the command that scores the rollout again, and why there is none; both are empty when
    there is nothing to score.
    """
    is_scored = snapshot.place(row, RunPart.RESULT) is not None
    if task is None or rollout is None or not (is_scored or snapshot.attempts(row)):
        return "", ""
    output = run.place.output_of(main_place(snapshot, row).path)
    command = command_of_run(output)
    if command is None:
        return "", (
            "No reverify command: no manifest lies beside the run, so nothing says which environment "
            "scored it. `palestra reverify --environment` takes its name."
        )
    # It may be pasted in any folder.
    text = completion_for([output], absolute_text)(command.text_for([f"{task}:{rollout}"]))
    return " ".join(map(shell_word, shlex.split(text))), ""


def shell_word(text: str) -> str:
    """Return a text as one word of a shell, in printable ASCII. Nothing in it ends the quotes."""
    if text.isascii() and text.isprintable():
        return shlex.quote(text)
    escaped = "".join(map(_escaped, text.encode("utf-8", "surrogatepass")))
    return f"$'{escaped}'"


def _escaped(byte: int) -> str:
    is_plain = 0x20 <= byte < 0x7F and chr(byte) not in "'\\"
    return chr(byte) if is_plain else f"\\x{byte:02x}"


# Attempts


def attempts(request: PageRequest) -> RolloutAttempts:
    """Answer the failed attempts of a rollout, and what the last one means."""
    run, snapshot, row = opened(request)
    rows = [
        (row_place, small_fields(row_place, REQUEST_AND_RESPONSE))
        for row_place in snapshot.attempts(row)
    ]
    meanings, advice = FailureMeanings(), run.advice()
    attempt_replies: list[Attempt] = []
    actions: list[tuple[str, str]] = []
    for row_place, fields in rows:
        record = attempt_of(fields, meanings, advice)
        recorded_cause = str(fields.get("cause") or "")
        signature = meanings.of(recorded_cause, fields.get("hops"), record.message)
        command = recorded_command(fields)
        actions.append(cause_and_action(signature, record.message, record.hint, command, advice))
        reply = _attempt(record, fields, row_place)
        if signature is not None:
            reply = structs.replace(reply, layer=signature.layer.value, cause=signature.cause)
        attempt_replies.append(reply)
    cause, action = actions[-1] if actions else ("", "")
    return RolloutAttempts(
        attempts=[
            structs.replace(reply, hint="" if own_action == action else own_action)
            for reply, (_, own_action) in zip(attempt_replies, actions, strict=True)
        ],
        likely_cause=cause,
        next_action=action,
    )


def _attempt(record: FailedAttempt, fields: Mapping[str, Any], row_place: IndexedPlace) -> Attempt:
    hops = fields.get("hops")
    last = hops[-1] if isinstance(hops, list) and hops and isinstance(hops[-1], dict) else {}
    elapsed = fields.get("elapsed_s")
    return Attempt(
        number=record.number,
        failure_class=record.failure_class,
        layer=record.layer,
        cause=str(fields.get("cause") or ""),
        message=record.message,
        hint=record.hint,
        hops=list(record.hops),
        body=str(last.get("body") or "")[:MOST_BODY_CHARACTERS],
        judge_question=record.judge_question,
        traceback=record.traceback[-MOST_BODY_CHARACTERS:],
        elapsed_s=float(elapsed) if isinstance(elapsed, int | float) else None,
        kept="response" in row_fields(row_place),
        row=None,
    )


# Times


def times(request: PageRequest) -> Times:
    """Answer when the rollout and its attempts ran, as far as the files say."""
    run, snapshot, row = opened(request)
    task, rollout = key_of_row(snapshot, row)
    file = RunPaths(run.place.output_of(main_place(snapshot, row).path)).events
    spans = list(_spans(_events(file, task, rollout))) if file.is_file() else []
    if spans:
        return Times(spans=spans, absent="", source=str(file))
    spans = list(_failure_spans(snapshot, row))
    source = str(run.paths.failures) if spans else ""
    # The program of the run may write the flag in another way.
    advice = run.advice()("no times were recorded; --json-events FILE records them")
    absent = advice.replace("FILE", shell_word(shown(file)))
    if snapshot.place(row, RunPart.RESULT) is None:
        absent = why_unscored(request, snapshot, row)
    return Times(spans=spans, absent="" if spans else absent, source=source)


def _events(file: Path, task: TaskName | None, rollout: int | None) -> Iterator[JsonDict]:
    """Yield the events of a rollout, in file order."""
    for line in read_jsonl(file):
        event = line.row
        if line.error or not isinstance(event, dict):
            continue
        if event.get("task") == task and event.get("rollout") == rollout and "at" in event:
            yield event


def _spans(events: Iterator[JsonDict]) -> Iterator[TimeSpan]:
    """Yield the whole rollout and its failed attempts, after its first event."""
    began: float | None = None
    previous = 0.0
    for event in events:
        at = float(event["at"])
        began = at if began is None else began
        after_s = at - began
        if event["event"] == "attempt_failed":
            start_s = max(0.0, after_s - float(event.get("elapsed_s") or 0.0))
            name = f"attempt {event.get('attempt')}"
            detail = f"{event.get('class')}: {event.get('message')}"
            yield TimeSpan(name=name, start_s=start_s, end_s=after_s, detail=detail)
            previous = after_s
        elif event["event"] == "rollout_ended":
            detail = str(event.get("outcome"))
            if previous:
                last = f"attempt {event.get('attempts')}"
                yield TimeSpan(name=last, start_s=previous, end_s=after_s, detail=detail)
            yield TimeSpan(name="rollout", start_s=0.0, end_s=after_s, detail=detail)


def _failure_spans(snapshot: IndexSnapshot, row: int) -> Iterator[TimeSpan]:
    rows = [small_fields(row_place, REQUEST_AND_RESPONSE) for row_place in snapshot.attempts(row)]
    timed = [
        fields
        for fields in rows
        if isinstance(fields.get("started_at"), int | float)
        if isinstance(fields.get("elapsed_s"), int | float)
    ]
    first = min((float(fields["started_at"]) for fields in timed), default=0.0)
    for fields in timed:
        start_s = float(fields["started_at"]) - first
        yield TimeSpan(
            name=f"attempt {fields.get('attempt')}",
            start_s=start_s,
            end_s=start_s + float(fields["elapsed_s"]),
            detail=str(fields.get("message") or ""),
        )

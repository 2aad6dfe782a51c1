"""The fake upstream's part in the plan: which answer each rollout's requests get."""

import json

from fake_upstream import (
    Asked,
    Cut,
    Deed,
    Hang,
    Raw,
    Reply,
    Reset,
    Trickle,
    completion,
    json_reply,
    right_answer,
)
from fault_plan import NAMED, Fate, fate_of, mark_of

TOLERATED_500 = 3
"""How many answers of status 500 one attempt takes."""


def planned(asked: Asked) -> Deed:
    """What becomes of this request."""
    fate = fate_of(asked.task, asked.rollout)
    mark = mark_of(asked.task, asked.rollout)
    if fate.place == "upstream":
        return _fault(fate, asked, mark)
    if _uses_tool(fate) and not asked.after_tool:
        function = {"name": _tool(fate), "arguments": '{"name": "it"}'}
        call = {"id": "call_1", "type": "function", "function": function}
        return json_reply(completion("", [call]))
    return json_reply(right_answer(asked))


def _uses_tool(fate: Fate) -> bool:
    return fate.name.startswith("tool") or fate is NAMED["fine with a tool"]


def _tool(fate: Fate) -> str:
    return "flaky" if fate is NAMED["tool answers 500"] else "look_up"


def _error(mark: str, sentence: str, status: int, **headers: str) -> Reply:
    return json_reply({"error": {"message": f"{sentence} {mark}"}}, status, **headers)


def _fault(fate: Fate, asked: Asked, mark: str) -> Deed:
    fine = json_reply(right_answer(asked))
    first = asked.nth == 1
    broken = _error(mark, "broken", 500)
    said = json.dumps(completion(f"{mark} ?")).encode()
    table: dict[str, Deed] = {
        "hangs": Hang(),
        "trickles": Trickle(),
        "500": broken,
        "500 for one attempt": broken if asked.nth <= TOLERATED_500 else fine,
        "503 once": _error(mark, "overloaded", 503, retry_after="0.3") if first else fine,
        "429 once": _error(mark, "slow down", 429, retry_after="0.3") if first else fine,
        "503 always": _error(mark, "overloaded", 503, retry_after="0.5"),
        "429 always": _error(mark, "slow down", 429),
        "html": Reply(f"<html>{mark}</html>".encode(), headers={"content-type": "text/html"}),
        "truncated json": Reply(said[:-20]),
        "wrong shape": json_reply({"choices": {"text": mark}}),
        "no choices": json_reply({"choices": [], "note": mark}),
        "empty": Reply(b""),
        "invalid utf-8": Reply(said.replace(b"?", b"\xff")),
        "deep json": Reply(f'{{"note": "{mark}", "choices": '.encode() + b"[" * 100_000),
        "surrogate": Reply(said.replace(b"?", b"\\ud800")),
        "redirects": json_reply({}, 302, location="http://elsewhere/"),
        "cuts once": Cut(b'{"choices"') if first else fine,
        "cuts": Cut(b'{"choices"'),
        "resets": Reset(),
        "bad status line": Raw(b"GARBAGE GARBAGE\r\n\r\n"),
        "bad gzip": Reply(b"no gzip at all", headers={"content-encoding": "gzip"}),
        "rejects the tools": _error(mark, "Invalid schema for function 'look_up'", 400),
        "context overflow": _error(
            mark, "This model's maximum context length is 4096 tokens.", 400
        ),
    }
    return table[fate.name.removeprefix("upstream ")]

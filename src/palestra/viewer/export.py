"""Writes what matches as one HTML file that loads nothing: for a mail, or an issue."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from palestra.analysis import Markup, amount, tag, together, visible, visible_line
from palestra.causes import FailureMeanings
from palestra.errors import ConfigError, PalestraError
from palestra.metrics import IntArray
from palestra.records import FailedAttempt, attempt_of
from palestra.schema import JsonDict
from palestra.system import replacing, shown
from palestra.viewer.catalog import OpenRun
from palestra.viewer.conversation import REQUEST_AND_RESPONSE, conversation_of, small_fields
from palestra.viewer.index import IndexSnapshot
from palestra.viewer.matching import ROLLOUT_FIELDS, matching_values

MOST_BYTES: Final = 10_000_000
TEXT_CHARACTERS: Final = 20_000
"""The largest length of one text; its middle is left out."""
END_BYTES: Final = 1_000
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid #888;padding-left:1rem}"
    "h2{border-top:1px solid #888;padding-top:1rem}h3{font-size:1rem;margin:1rem 0 0}"
    ":root{color-scheme:light dark}"
)


def export(
    run: OpenRun,
    snapshot: IndexSnapshot,
    rows: IntArray,
    path: Path,
    *,
    query: str,
    mask: Callable[[str], str],
) -> int:
    """Write the rollouts of `rows`, as many as fit in 10 MB, and return how many were written.

    `mask`: takes secrets out of each text. Raises ConfigError: `path` cannot be written.
    """
    written = 0
    with _written(path) as file:
        head = _head(run, len(rows), query, mask).encode()
        file.write(head)
        room = MOST_BYTES - len(head) - END_BYTES
        for block in _blocks(snapshot, rows, mask, run.advice()):
            data = block.encode()
            if len(data) > room:
                break
            file.write(data)
            room -= len(data)
            written += 1
        file.write(_end(written, len(rows)).encode())
    return written


@contextlib.contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise ConfigError(
            f"--export: cannot write {shown(path)}: {error.strerror}",
            hint="name another file",
        ) from error


def _head(run: OpenRun, count: int, query: str, mask: Callable[[str], str]) -> str:
    title = visible_line(mask(run.title), 200)
    matching = f"{amount(count, 'rollout')} matching {query}" if query else amount(count, "rollout")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width">{tag("title", title)}'
        f"<style>{_STYLE}</style><body>{tag('h1', title)}{tag('p', visible(mask(matching)))}"
    )


def _blocks(
    snapshot: IndexSnapshot,
    rows: IntArray,
    mask: Callable[[str], str],
    advice: Callable[[str], str],
) -> Iterator[Markup]:
    attempt_in = partial(attempt_of, meanings=FailureMeanings(), advice=advice)
    for row, values in zip(
        rows.tolist(), matching_values(snapshot.rollouts, rows, ROLLOUT_FIELDS), strict=True
    ):
        name = f"{values.get('task')}:{values.get('rollout')}"
        reward = "" if values.get("reward") is None else f", reward {values['reward']:g}"
        heading = visible_line(f"{name} {values.get('outcome')}{reward}", 200)
        yield together(tag("h2", heading), *_entries(snapshot, row, mask, attempt_in))


def _failures(
    snapshot: IndexSnapshot,
    row: int,
    mask: Callable[[str], str],
    attempt_in: Callable[[JsonDict], FailedAttempt],
) -> Iterator[Markup]:
    """Yield why each failed attempt failed."""
    for row_place in snapshot.attempts(row):
        attempt = attempt_in(small_fields(row_place, REQUEST_AND_RESPONSE))
        lines = [
            f"attempt {attempt.number} failed: {attempt.failure_class}, layer {attempt.layer}",
            attempt.message,
            *attempt.traceback.splitlines(),
            *attempt.hops,
            *([f"hint: {attempt.hint}"] if attempt.hint else []),
            *([f"asked the judge: {attempt.judge_question}"] if attempt.judge_question else []),
        ]
        yield tag("pre", visible(mask(_cut("\n".join(lines)))), dir="auto")


def _entries(
    snapshot: IndexSnapshot,
    row: int,
    mask: Callable[[str], str],
    attempt_in: Callable[[JsonDict], FailedAttempt],
) -> Iterator[Markup]:
    try:
        yield from _failures(snapshot, row, mask, attempt_in)
        talk = conversation_of(snapshot, row)
        for item, text in talk.texts(talk.items):
            yield tag("h3", visible_line(f"{item.kind} {item.name}".strip(), 200))
            yield tag("pre", visible(mask(_cut(text))), dir="auto")
    except PalestraError as error:
        yield tag("p", visible(mask(error.message)))


def _cut(text: str) -> str:
    if len(text) <= TEXT_CHARACTERS:
        return text
    half = TEXT_CHARACTERS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n… {left_out:,} characters left out …\n{text[-half:]}"


def _end(written: int, count: int) -> Markup:
    if written == count:
        return Markup("")
    size = f"{MOST_BYTES / 1e6:g} MB"
    text = f"{count - written:,} more match. They were left out: the file stays under {size}."
    return tag("p", text)

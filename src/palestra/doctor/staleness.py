"""Check whether a run's materialized inputs match its input file and its results.

A run is resumed with its materialized rows. When the input file was changed or the materialized
file was replaced, the results come from a mixture of inputs. Suspect this first when a resumed run
goes wrong.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.doctor.findings import Quote, quote
from palestra.doctor.outputs import RunReading, modified
from palestra.doctor.reading import LogObservation, Rank, json_rows
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
)

MOST_COMPARED: Final = 500
"""Largest number of result rows that are compared with their materialized inputs."""
_MADE_BY_THE_RUN: Final = frozenset({AGENT_REF, ROLLOUT_INDEX, TASK_INDEX})
_OF_THE_RESULT: Final = _MADE_BY_THE_RUN | {CREATE_PARAMS, "response", "reward"}


def stale_inputs(run: RunReading, sources: tuple[Path, ...]) -> list[LogObservation]:
    """Return observations that the inputs are stale. `sources`: the input files; default: the
    manifest's.
    """
    input_paths = tuple(Path(name) for name in run.manifest.inputs) if run.manifest else ()
    present = [path for path in sources or input_paths if path.is_file()]
    candidates = [_against_sources(run, present), _against_results(run)]
    return [observation for observation in candidates if observation is not None]


def _against_sources(run: RunReading, sources: list[Path]) -> LogObservation | None:
    inputs = run.paths.materialized_inputs
    if not sources or not inputs.is_file() or _same_digest(run, sources):
        return None
    rows = {_digest(_own_fields(row)): None for path in sources for _, row in _rows(path)}
    strange = [
        (number, row)
        for number, row in _first_rollouts(inputs)
        if _digest(_own_fields(row)) not in rows
    ]
    if not strange:
        return None
    number, row = strange[0]
    names = " and ".join(source.name for source in sources)
    text = (
        f"{len(strange)} of the materialized rows are in {names} no more: the file was "
        "changed since the run was made from it"
    )
    quotes = (
        _difference(sources, inputs, number, row),
        *(quote(source, f"modified {modified(source)}") for source in sources),
        quote(inputs, f"written {modified(inputs)}"),
    )
    return LogObservation(
        text, quotes, Rank.FAILURE, cause="cache.stale-inputs", recovered=_is_whole(run)
    )


def _is_whole(run: RunReading) -> bool:
    counts = run.counts
    expected = counts.requested if counts.requested is not None else counts.inputs
    return counts.scored + counts.failed >= expected


def _same_digest(run: RunReading, sources: list[Path]) -> bool:
    """Whether the run was made from the current content of these files, or of their first rows."""
    if run.manifest is None:
        return False
    digest = hashlib.sha256()
    for path in sources:
        for _, row in _rows(path):
            digest.update(orjson.dumps([row, 1], option=orjson.OPT_SORT_KEYS))
            if digest.hexdigest() == run.manifest.input_digest:
                return True
    return False


def _against_results(run: RunReading) -> LogObservation | None:
    """Return an observation when a result row has another task than the materialized row with its
    indices.
    """
    inputs, output = run.paths.materialized_inputs, run.paths.output
    if not (inputs.is_file() and output.is_file()):
        return None
    results: dict[tuple[Any, Any], tuple[int, JsonObject]] = {}
    for number, row in _rows(output):
        results[row.get(TASK_INDEX), row.get(ROLLOUT_INDEX)] = (number, row)
        if len(results) == MOST_COMPARED:
            break
    for at, input_row in _rows(inputs):
        if not results:
            break
        result_row = results.pop((input_row.get(TASK_INDEX), input_row.get(ROLLOUT_INDEX)), None)
        if result_row is None:
            continue
        pointer = _differs(input_row, result_row[1])
        if pointer is not None:
            number, result = result_row
            return LogObservation(
                f"a result is of another task than the materialized row of its name: {pointer} "
                "differs",
                (
                    quote(output, _field_text(result, pointer), line=number, pointer=pointer),
                    quote(inputs, _field_text(input_row, pointer), line=at, pointer=pointer),
                    quote(inputs, f"written {modified(inputs)}"),
                    quote(output, f"modified {modified(output)}"),
                ),
                Rank.FAILURE,
                cause="cache.inputs-edited",
            )
    return None


def _differs(input_row: JsonObject, result: JsonObject) -> str | None:
    """Return the JSON pointer of the prompt when the two prompts differ; else None.

    Other fields are not compared, because an environment may change them.
    """
    mine, its = _prompt(input_row), _prompt(result)
    if mine and its and mine != its:
        return f"/{CREATE_PARAMS}/input"
    return None


def _prompt(row: JsonObject) -> str:
    """Return all text of a prompt, whatever the form of its messages."""
    params = row.get(CREATE_PARAMS)
    return "\n".join(_texts(params.get("input"))) if isinstance(params, Mapping) else ""


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for item in content:
            yield from _texts(item)
    elif isinstance(content, Mapping):
        yield from _texts(content.get("content") or content.get("text"))


def _field_text(row: JsonObject, pointer: str) -> str:
    return _prompt(row) if pointer.startswith(f"/{CREATE_PARAMS}") else str(row.get(pointer[1:]))


def _rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    return ((number, row) for number, row in json_rows(path) if isinstance(row, Mapping))


def _first_rollouts(inputs: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield the materialized row of each task's first rollout; the other rollouts have equal rows."""
    return ((number, row) for number, row in _rows(inputs) if not row.get(ROLLOUT_INDEX))


def _own_fields(row: JsonObject) -> JsonDict:
    """Return the fields of a materialized row that come from its task, not from the command's
    settings.
    """
    own_fields = {name: value for name, value in row.items() if name not in _OF_THE_RESULT}
    return {**own_fields, CREATE_PARAMS: _prompt(row)}


def _digest(row: JsonObject) -> bytes:
    return hashlib.sha256(orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).digest()


def _difference(sources: Sequence[Path], inputs: Path, number: int, row: JsonObject) -> Quote:
    """Quote the first field of a materialized row that differs from the source row."""
    task = row.get(TASK_INDEX)
    rows = ((source, r) for source in sources for _, r in _rows(source))
    source, theirs = next((r for at, r in enumerate(rows) if at == task), (sources[0], {}))
    mine, now = _own_fields(row), _own_fields(theirs)
    for name in sorted({*mine, *now}):
        if mine.get(name) != now.get(name):
            was, is_now = _short(mine.get(name)), _short(now.get(name))
            return quote(
                inputs,
                f"{was}, and in {source.name} now: {is_now}",
                line=number,
                pointer=f"/{name}",
            )
    return quote(inputs, "not in the input file", line=number)


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 120 else f"{text[:120]}…"

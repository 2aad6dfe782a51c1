"""`nemo_gym.rollout_collection`: the keys of result rows, and collecting rollouts from a library's
code.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, field_validator

from palestra.compat.client import ServerClient
from palestra.compat.http import get_response_json, raise_for_status
from palestra.compat.nemo_gym.global_config import get_global_config_dict
from palestra.compat.nemo_gym.path_utils import failures_path_for
from palestra.compat.recorded_runs import RecordedRun, aggregation_row, identified
from palestra.config import ResolvedConfig, capture_settings
from palestra.observability import (
    attach_trajectory_record,
    build_trajectory_record,
    clear_capture,
    merge_model_call_capture_into_record,
    rollout_id_of,
    strip_capture_payloads,
)
from palestra.rollouts import materialize, write_json
from palestra.schema import (
    AGENT_OBSERVATIONS,
    AGENT_REF,
    FAILURE_CLASS,
    FAILURE_JUDGE_ERROR,
    FAILURE_TERMINAL,
    MODEL_CALL_CAPTURE,
    NO_PERSIST,
    TRAJECTORY,
    JsonDict,
    RunPaths,
    read_jsonl,
)
from palestra.settings import CollectArgs

NG_FAILURE_CLASS_KEY: Final = FAILURE_CLASS
NG_FAILURE_JUDGE_ERROR_KEY: Final = FAILURE_JUDGE_ERROR
NG_FAILURE_TERMINAL_KEY: Final = FAILURE_TERMINAL
NG_TERMINAL_KEY: Final = FAILURE_TERMINAL
NG_NO_PERSIST_KEY: Final = NO_PERSIST
NG_TRAJECTORY_KEY: Final = TRAJECTORY
NG_AGENT_OBSERVATIONS_KEY: Final = AGENT_OBSERVATIONS
NG_MODEL_CALL_CAPTURE_KEY: Final = MODEL_CALL_CAPTURE

MAX_ATTEMPTS_VARIABLE: Final = "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"
DEFAULT_MAX_ATTEMPTS: Final = 3

_build_trajectory_record = build_trajectory_record
_failures_path_for = failures_path_for
_strip_capture_payloads = strip_capture_payloads


def _get_max_rollout_attempts() -> int:
    """Return how often a failing rollout is tried: `NEMO_GYM_MAX_ROLLOUT_ATTEMPTS`, default 3."""
    text = os.environ.get(MAX_ATTEMPTS_VARIABLE, "").strip()
    if not text:
        return DEFAULT_MAX_ATTEMPTS
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    print(  # noqa: T201 - scripts of the field look for it on stdout
        f"WARNING: {MAX_ATTEMPTS_VARIABLE}={text!r} is not a whole number from 1 on: "
        f"using {DEFAULT_MAX_ATTEMPTS}"
    )
    return DEFAULT_MAX_ATTEMPTS


def _attach_trajectory_record(row: JsonDict, result: JsonDict) -> None:
    """Put the merged trajectory into `result`; see `attach_trajectory_record`."""
    attach_trajectory_record(
        row, result, build=_build_trajectory_record, strip=_strip_capture_payloads
    )


class RolloutCollectionConfig(CollectArgs):
    """The settings of a rollout collection. Other settings of a configuration are kept."""

    model_config = ConfigDict(extra="allow", frozen=False)

    upload_rollouts: bool = True
    upload_rollouts_to_wandb: bool = True

    @field_validator("output_jsonl_fpath")
    @classmethod
    def _is_of_rows(cls, value: str) -> str:
        return value  # of any name, as authors' code has it

    @field_validator("num_repeats", mode="before")
    @classmethod
    def _once_by_default(cls, value: Any) -> Any:
        return 1 if value is None else value


class RolloutCollectionHelper(BaseModel):
    """Runs rows against a running fleet. Subclass it to change a part of a collection."""

    model_config = ConfigDict(extra="allow")

    async def run_from_config(self, config: RolloutCollectionConfig) -> list[JsonDict]:
        """Run a whole collection and return its scored results, in task order.

        The files beside `output_jsonl_fpath` are those of `gym eval run`. An agent that answers an
        error status ends the collection; what was written until then remains.
        """
        run = RecordedRun(RunPaths(Path(config.output_jsonl_fpath)))
        if config.resume_from_cache and run.exists():
            rows, results = self._load_from_cache(config)
        else:
            rows, results = self._preprocess_rows_from_config(config), []
            run.begin(rows)
        folder = _capture_folder()
        for row in rows:
            if folder is not None and (rollout_id := rollout_id_of(row)) is not None:
                clear_capture(folder, rollout_id)
        bound = config.num_samples_in_parallel
        semaphore = asyncio.Semaphore(bound) if isinstance(bound, int) else None
        for answer in self.run_examples(rows, semaphore=semaphore):
            row, result = await answer
            result = identified(row, result)
            if folder is not None:
                merge_model_call_capture_into_record(result, [folder], include_payloads=True)
                _attach_trajectory_record(row, result)
            if run.record(result):
                results.append(result)
        results = run.in_order(results)
        if results and not config.disable_aggregation:
            await self._call_aggregate_metrics(results, rows, run.paths.output)
        return results

    def run_examples(
        self,
        examples: Sequence[JsonDict],
        head_server_config: Any = None,
        semaphore: Any = None,
    ) -> "Iterable[Awaitable[tuple[JsonDict, JsonDict]]]":
        """Return futures of (row, result), in the order in which the rollouts finish."""
        client = self.setup_server_client(head_server_config)
        bound = semaphore or contextlib.nullcontext()

        async def run(row: JsonDict) -> tuple[JsonDict, JsonDict]:
            async with bound:
                reply = await client.post(row[AGENT_REF]["name"], "/run", json=row)
                await raise_for_status(reply)
                return row, await get_response_json(reply)

        return asyncio.as_completed([run(row) for row in examples])

    def setup_server_client(self, head_server_config: Any = None) -> ServerClient:
        """Return a client of the fleet whose head server is at `head_server_config`."""
        return ServerClient.load_from_global_config(head_server_config)

    def _preprocess_rows_from_config(self, config: RolloutCollectionConfig) -> list[JsonDict]:
        """Return the materialized rows of the input, one per requested rollout.

        Raises InputDataError that lists every bad line.
        """
        fields = config.model_dump(include=set(CollectArgs.model_fields))
        settings = CollectArgs(**fields).settings(ResolvedConfig(tree={}, instances={}))
        agents = set(_agents_of(line.path for line in settings.inputs))
        agents |= {config.agent_name} if config.agent_name else set()
        with tempfile.TemporaryDirectory() as folder:
            materialized = Path(folder) / "rows.jsonl"
            materialize(settings, materialized, agents=agents)
            return [line.row for line in read_jsonl(materialized)]

    def _load_from_cache(
        self, config: RolloutCollectionConfig
    ) -> tuple[list[JsonDict], list[JsonDict]]:
        """Return the rows of an earlier run that are still to run, and its results."""
        run = RecordedRun(RunPaths(Path(config.output_jsonl_fpath)))
        return run.remaining(_get_max_rollout_attempts()), run.results()

    async def _call_aggregate_metrics(
        self, results: list[JsonDict], rows: list[JsonDict], output_fpath: Path
    ) -> None:
        """Ask each agent for the metrics of its results, and write them beside `output_fpath`."""
        del rows
        client = self.setup_server_client()
        by_agent: dict[str, list[JsonDict]] = {}
        for result in results:
            by_agent.setdefault(result[AGENT_REF]["name"], []).append(result)
        aggregates = []
        for name, agent_results in sorted(by_agent.items()):
            body = {"verify_responses": [aggregation_row(result) for result in agent_results]}
            reply = await client.post(name, "/aggregate_metrics", json=body)
            await raise_for_status(reply)
            metrics = await get_response_json(reply)
            aggregates.append({AGENT_REF: agent_results[0][AGENT_REF], **metrics})
        write_json(RunPaths(Path(output_fpath)).aggregate_metrics, aggregates)


def _agents_of(inputs: Iterable[Path]) -> Iterator[str]:
    """Yield the agents that rows name: whether they exist shows when they are called."""
    for path in inputs:
        for line in read_jsonl(path) if path.is_file() else ():
            ref = line.row.get(AGENT_REF) if isinstance(line.row, dict) else None
            if isinstance(ref, Mapping) and isinstance(ref.get("name"), str):
                yield ref["name"]


def _capture_folder() -> Path | None:
    settings = capture_settings(get_global_config_dict())
    return settings.folder if settings is not None and settings.calls else None


__all__ = [
    "NG_AGENT_OBSERVATIONS_KEY",
    "NG_FAILURE_CLASS_KEY",
    "NG_FAILURE_JUDGE_ERROR_KEY",
    "NG_FAILURE_TERMINAL_KEY",
    "NG_MODEL_CALL_CAPTURE_KEY",
    "NG_NO_PERSIST_KEY",
    "NG_TERMINAL_KEY",
    "NG_TRAJECTORY_KEY",
    "RolloutCollectionConfig",
    "RolloutCollectionHelper",
    "ServerClient",
    "get_global_config_dict",
]

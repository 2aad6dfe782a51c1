"""The public names as their users write them, for type checkers alone: nothing here ever runs.

`make check` gives this file to mypy, in which strict settings hold: a name whose type is lost fails
at `assert_type`, and a wrong use that becomes possible fails as a comment that expects no error.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import ClassVar, assert_type

import palestra
from palestra import Model, ResourcesServer, RewardRules, Session, ToolError, environment, tool
from palestra.analysis import Comparison
from palestra.api import (
    Reverified,
    RolloutRecord,
    Run,
    RunProfile,
    ScoreTable,
    TaskSelection,
    compare,
    profile,
    scores,
)
from palestra.config import ResolvedConfig, load_config
from palestra.doctor import Diagnosis
from palestra.errors import Layer, PalestraError
from palestra.fleet import Fleet
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.testing import assert_verifies, called, scripted_endpoint, task_row
from palestra.training import (
    ClientSettings,
    Completed,
    DynamicSampling,
    Failed,
    Fault,
    Group,
    IncompleteRollouts,
    Key,
    Outcome,
    OverSampling,
    RolloutClient,
    RolloutRequest,
    RolloutSource,
    Submission,
    SyncRolloutClient,
    attached,
    batch_metrics,
    dynamic_sample,
    metrics_line,
    over_sample,
    task_queue,
)

# An environment in one file, and one in a folder


@environment(data=[{"a": 1, "b": 2, "total": 3}], prompt="{a} + {b} = ?", gold="{total}")
def addition(answer: str, total: int) -> float:
    """Whether the answer ends with the sum."""
    return float(answer.endswith(str(total)))


@environment(data=[{"a": 1}], prompt="{a}", reward_rules={"lowest": -1.0})  # type: ignore[arg-type]
def rules_that_are_no_rules(answer: str) -> float:
    return float(answer == "1")


@environment(data=[{"a": 1}])
def components_by_name(answer: str) -> dict[str, float]:
    return {"right": float(answer == "1"), "short": 0.5}


class ShelfRequest(VerifyRequest):
    """A row's field of its own."""

    book: str


class Shelf(ResourcesServer):
    """Whether a model brings the shelf into a state."""

    repeatable: ClassVar[bool | None] = True
    reward_rules: ClassVar[RewardRules] = RewardRules(lowest=-1.0, highest=1.0)

    @tool
    def put(self, book: str, session: Session) -> dict[str, str]:
        """Put a book on the shelf."""
        if book in session.state:
            raise ToolError(f"{book} is there already")
        session.state[book] = True
        return {"shelf": ", ".join(session.state)}

    async def verify(self, body: ShelfRequest) -> VerifyResponse:
        """Whether the book is named."""
        assert_type(body.response.final_text, str)
        return self.reply(body, float(body.book in body.response.final_text))


def tools_keep_their_types(shelf: Shelf, session: Session) -> None:
    assert_type(shelf.put("Emma", session), dict[str, str])
    shelf.put(1, session)  # type: ignore[arg-type]


def rewards_are_numbers(shelf: Shelf, body: VerifyRequest) -> None:
    shelf.reply(body, "1.0")  # type: ignore[arg-type]


# Tests of an environment


def helpers_for_tests() -> None:
    row = task_row("Bring Emma.", book="Emma")
    assert_verifies(Shelf, row, "Emma", 1.0)
    assert_verifies(Shelf, row, called("put", {"book": "Emma"}), 1.0)
    assert_verifies(Shelf, row, "Emma", "1.0")  # type: ignore[arg-type]
    with scripted_endpoint("Emma", "Persuasion"):
        pass
    with scripted_endpoint(1.0):  # type: ignore[arg-type]
        pass


# A trainer


async def rollouts_of(config: ResolvedConfig) -> float:
    settings = ClientSettings(in_flight=128, on_incomplete={"timeout": "drop_group"})
    requests = [RolloutRequest(row={}, task_id=0, rollout_index=index) for index in range(8)]
    async with RolloutClient(config, settings) as client, client.submit(requests) as batch:
        async for group in batch.groups(8):
            assert_type(group.completed, list[Completed])
        async for outcome in batch:
            assert_type(outcome, Outcome)
        assert_type(await batch.gather(), list[Outcome])
        batch.cancel([Key(0, 1)])
        await client.set_weight_version("2")  # type: ignore[arg-type]
        return sum(map(reward_of, await batch.gather()))


async def groups_of(client: RolloutSource) -> dict[str, float]:
    rule = DynamicSampling(groups=4, members=OverSampling(needed=7), max_fresh_groups=8)
    async with dynamic_sample(client, task_queue([{}], 8), rule) as batch:
        async for group in batch:
            assert_type(group, Group)
            assert_type(group.advantages().values, list[float])
            assert_type([fault.fault for fault in group.faults], list[Fault])
    async with over_sample(client, [RolloutRequest(row={}, task_id=0)], 7):  # type: ignore[arg-type]
        pass
    assert_type(batch.report.bias_bound, float)
    assert_type(metrics_line(batch.metrics()), str)
    return batch_metrics(await client.submit([]).gather())


def reward_of(outcome: Outcome) -> float:
    """A failure has no reward: type checkers hold a trainer to telling the two apart."""
    _ = outcome.reward  # type: ignore[union-attr]
    match outcome:
        case Completed():
            return assert_type(outcome.reward, float)
        case Failed():
            return 0.0


def rollouts_without_a_loop(config: ResolvedConfig) -> None:
    with SyncRolloutClient(lambda: Fleet(config, default_placement="embedded")) as client:
        for outcome in client.submit([]):
            assert_type(outcome, Outcome)
    with SyncRolloutClient(attached) as client, client.submit([]) as batch:
        assert_type(batch.gather(), list[Outcome])
    RolloutClient("config.yaml")  # type: ignore[arg-type]


def what_came_back(error: IncompleteRollouts) -> None:
    assert_type(error.requested, int)
    assert_type(error.missing, tuple[Key, ...])
    assert_type(error.outcomes, tuple[Outcome, ...])


# Functions of commands


def statistics_of_a_run(rollouts: Path) -> None:
    assert_type(load_config(config_paths=["run.yaml"], overrides=["a=1"]), ResolvedConfig)
    load_config("run.yaml")  # type: ignore[call-arg]
    assert_type(profile(rollouts, allow_partial=True), RunProfile)
    assert_type(scores([("base", "a.jsonl"), ("base", "b.jsonl")], k=4), ScoreTable)
    compare("a.jsonl", "b.jsonl", metrics=["pass@1"])
    compare("a.jsonl", "b.jsonl", metrics=1)  # type: ignore[arg-type]


# Python: evaluate, and the run that comes back


def runs_have_types(shelf: Path) -> None:
    run = palestra.evaluate(
        shelf,
        model=Model("vllm:http://127.0.0.1:8000/v1", api_key="sk"),
        repeats=8,
        sampling={"temperature": 0.7},
        settings={"difficulty": 5},
        output="runs/a.jsonl",
    )
    assert_type(run, Run)
    assert_type(run.path, Path)
    assert_type(run.outcomes, Mapping[str, int])
    assert_type(run.mean_reward, float | None)
    assert_type(run.started_at, datetime | None)
    assert_type(run.rollouts("reward<1 tools:take"), Iterator[RolloutRecord])
    assert_type(run.rollout(17, 3), RolloutRecord)
    assert_type(run.failures(), list[RolloutRecord])
    assert_type(run.profile(group_by="topic"), RunProfile)
    assert_type(run.diagnose(), Diagnosis)
    assert_type(run.report(), Path)
    assert_type(run.reverify(), Reverified)
    assert_type(run.select(band=(0.1, 0.9)), TaskSelection)
    assert_type(run.select(band=(0.1, 0.9)).save("learn.jsonl"), Path)
    assert_type(run.refresh(), Run)
    assert_type(palestra.open_run("runs/before"), Run)
    assert_type(palestra.compare(run, "runs/before", metrics=["pass@1"]), Comparison)
    assert_type(palestra.scores([run, ("base", shelf)], k=1), ScoreTable)
    assert_type(palestra.merge(["a.jsonl", "b.jsonl"], "all.jsonl"), Run)
    palestra.evaluate(shelf, model=1)  # type: ignore[arg-type]
    palestra.evaluate(shelf, "vllm:URL")  # type: ignore[call-arg]
    palestra.evaluate(shelf, repeat=8)  # type: ignore[call-arg]
    run.requested = 3  # type: ignore[misc]


def classes_and_functions_are_environments() -> None:
    assert_type(palestra.evaluate(addition, model="local"), Run)
    assert_type(palestra.evaluate(ShelfFile, model="local"), Run)


class ShelfFile(palestra.Environment):
    """An environment in one file."""

    prompt = "Bring {book}."

    def verify(self, answer: str, book: str) -> dict[str, float]:
        """Whether the book is named."""
        return {"named": float(book in answer)}


async def runs_can_be_awaited(config: Path) -> None:
    assert_type(await palestra.aevaluate("mcqa", model="local", limit=5), Run)
    assert_type(await palestra.acollect([config], agent="agent", data=[{"a": 1}]), Run)


def every_client_keeps_the_contract(client: RolloutClient) -> Submission:
    source: RolloutSource = client
    return source.submit([])


def rollouts_have_types(rollout: RolloutRecord) -> None:
    assert_type(rollout.reward, float | None)
    assert_type(rollout.remedy, str)
    assert_type(rollout.outcome, str)
    assert_type([attempt.message for attempt in rollout.attempts], list[str])


def errors_have_fields(error: PalestraError) -> Mapping[str, str]:
    assert_type(error.layer, Layer)
    assert_type(error.message, str)
    return {"message": error.message, "hint": assert_type(error.hint, str)}

"""A thousand rollouts of which half break in some way: each ends as it must, and nothing else."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fake_upstream import FakeUpstream, serving
from fault_plan import FATES, Fate, answer_of, fate_of, mark_of, reward_of
from faults_world import EXTRA_S, Done, World, free_port, long_run, tasks
from upstream_faults import planned

from palestra.schema import Response, RolloutKey, key_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

TIMEOUT_S = 3.0
ATTEMPTS = 2
PAUSE_S = 1.0
REPEATS = 2
TOTAL = {
    "embedded": long_run("FAULTS_ROLLOUTS", 1000),
    "process": long_run("FAULTS_ROLLOUTS_PROCESS", 200),
}
IN_FLIGHT = 250


@dataclass(frozen=True)
class Injected:
    """A run with faults: what it said and what it left."""

    total: int
    done: Done
    scored: list[dict[str, Any]]
    failed: list[dict[str, Any]]

    def keys(self, fate: Fate) -> list[RolloutKey]:
        """The rollouts that had this fate."""
        return [key for key in self.all_keys() if fate_of(*key) is fate]

    def all_keys(self) -> list[RolloutKey]:
        return [RolloutKey(t, r) for t in range(self.total // REPEATS) for r in range(REPEATS)]

    def ending(self, key: RolloutKey) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Its scored rows and its failures."""
        return (
            [row for row in self.scored if key_of(row) == key],
            [row for row in self.failed if key_of(row) == key],
        )


@pytest.fixture(scope="module", params=["embedded", "process"])
def injected(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Injected]:
    """One run of `palestra collect` to its end, in each placement."""
    placement: str = request.param
    world = World.make(tmp_path_factory.mktemp(placement) / "project")
    # A process's endpoint is not asked before the first rollout; one in this process is, and
    # must be there then.
    mortal = FakeUpstream(planned, dies_after_models=True)
    with serving(FakeUpstream(planned)) as world.base_url, serving(mortal) as soon_dead:
        dead = soon_dead if placement == "embedded" else f"http://127.0.0.1:{free_port()}/v1"
        yield inject(world, placement, dead, total=TOTAL[placement])


def inject(world: World, placement: str, dead: str, *, total: int) -> Injected:
    world.write_rows("tasks.jsonl", tasks(total // REPEATS))
    done = world.run(
        *("collect", "--config", "configs/faults.yaml", *world.policy()),
        *(f"++refused_base_url={dead}", *placed(placement)),
        *("--agent", "fault_agent", "--input", "tasks.jsonl", "--output", "run.jsonl"),
        *("--num-repeats", str(REPEATS), "--num-repeats-add-seed"),
        *("--rollout-timeout", str(TIMEOUT_S), "--max-attempts", str(ATTEMPTS)),
        *("--concurrency", str(IN_FLIGHT)),
        timeout_s=200,
    )
    return Injected(total, done, world.rows("run.jsonl"), world.rows("run_failures.jsonl"))


def placed(placement: str) -> list[str]:
    servers = {
        "fault_environment": "resources_servers.fault_environment",
        "fault_agent": "responses_api_agents.fault_agent",
        "policy_model": "responses_api_models.vllm_model",
        "refused_model": "responses_api_models.vllm_model",
    }
    return [f"++{name}.{block}.placement={placement}" for name, block in servers.items()]


def expected_line(total: int) -> str:
    """The accounting that the plan makes, as the program prints it."""
    run = Injected(total, Done(0, "", "", 0), [], [])
    ended = Counter(fate_of(*key).outcome for key in run.all_keys())
    truncated = ended.pop("truncated", 0)
    scored = ended.pop("scored", 0) + truncated
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(ended.items()))
    cut = f", {truncated} of them truncated" if truncated else ""
    failed = f"failed {ended.total()}" + (f" ({kinds})" if kinds else "")
    return f"requested {total} = scored {scored}{cut} + {failed}\n"


def test_the_program_ends_by_itself_and_says_that_rollouts_are_missing(injected: Injected) -> None:
    waves = injected.total / IN_FLIGHT + 1

    assert injected.done.code == 1, injected.done.said[-3000:]
    assert injected.done.took_s < waves * (ATTEMPTS * (TIMEOUT_S + PAUSE_S)) + EXTRA_S
    assert [line for line in injected.done.errors if "is below the minimum" in line]


def test_requested_is_the_sum_of_how_rollouts_ended(injected: Injected) -> None:
    broken = sum("tool_failures" in row for row in injected.scored)
    told = re.compile(rf", {broken} of them with tool failures \([^)]*\)")

    assert expected_line(injected.total) in told.sub("", injected.done.out), injected.done.said[
        -3000:
    ]


def test_nothing_else_is_recorded(injected: Injected) -> None:
    recorded = {key_of(row) for row in [*injected.scored, *injected.failed]}

    assert recorded <= set(injected.all_keys())
    assert len(injected.scored) == len({key_of(row) for row in injected.scored})


def test_no_server_said_what_nobody_looked_at(injected: Injected) -> None:
    for sign in ("Traceback", "never retrieved", "never awaited", "Exception ignored"):
        assert sign not in injected.done.err


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.name)
def test_every_rollout_ends_as_planned(injected: Injected, fate: Fate) -> None:
    for key in injected.keys(fate):
        scored, failed = injected.ending(key)
        rewards = [] if fate.layer else [reward_of(*key)]

        assert [row["reward"] for row in scored] == rewards, failed
        assert [row["attempt"] for row in failed] == list(range(1, fate.failures + 1)), failed
        if fate.layer:
            check_failure(failed[-1], fate, mark_of(*key))


def test_no_failed_verification_loses_the_answer_of_the_model(injected: Injected) -> None:
    for fate in (fate for fate in FATES if fate.name.startswith("verify ") and fate.layer):
        for key in injected.keys(fate):
            _, failed = injected.ending(key)
            assert [answer_in(row) for row in failed] == [answer_of(*key)] * fate.failures, fate


def answer_in(row: dict[str, Any]) -> str:
    """The text of the answer that a failures row keeps."""
    return Response.model_validate(row["response"]).final_text


def check_failure(row: dict[str, Any], fate: Fate, mark: str) -> None:
    """The last failure of a rollout is of the right class and says its cause."""
    assert (row["_ng_failure_class"], row["_ng_failure_layer"]) == (fate.outcome, fate.layer), row
    assert row["_ng_failure_terminal"] is True
    named = [row["message"], *(hop["server"] for hop in row["hops"])]
    assert any(fate.says in text for text in named), row
    if fate.body:
        assert mark in row["hops"][-1]["body"]
    if fate.marked:
        assert mark in row["message"]

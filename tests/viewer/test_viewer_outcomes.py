"""Files of training outcomes open as runs; token ids are shown as text with a local tokenizer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from viewer_world import World, viewing

from listed_runs import answered
from palestra.errors import ConfigError, Outcome
from palestra.training import Completed, Evidence, Failed, RawRow, Timings, outcome_to_json
from palestra.viewer import TokenTexts

COMPLETED = Completed(
    task_id=3,
    rollout_index=1,
    group_id=3,
    attempt=0,
    reward=0.5,
    stop_reason="stop",
    timings=Timings(queue_s=0.1, total_s=1.0),
    weights_start=7,
    weights_end=8,
    raw=RawRow(answered(3, 0.5, "It is seven.") | {"_ng_rollout_index": 1}),
)
FAILED = Failed(
    task_id=4,
    rollout_index=0,
    group_id=4,
    failure=Outcome.TIMEOUT,
    layer="throughput/resources",
    retriable=True,
    attempts=3,
    message="no answer within 600 s",
    evidence=Evidence(body="504", where="policy_model", log_tail=["line"], hint="wait longer"),
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    output = tmp_path / "outcomes.jsonl"
    output.write_bytes(b"".join(outcome_to_json(o) + b"\n" for o in (COMPLETED, FAILED)))
    with viewing(output, cache=tmp_path / "cache") as world:
        yield world


def test_outcomes_are_rows_with_indices_reward_and_outcome(world: World) -> None:
    table = world.get("/api/r/RUN/rollouts", columns="outcome,reward")

    assert [(row["task"], row["rollout"], row["cells"]) for row in table["rows"]] == [
        (3, 1, ["scored", 0.5]),
        (4, 0, ["timeout", None]),
    ]
    assert world.get("/api/r/RUN/rollouts", q="weights_start:7 stop_reason:stop")["matches"] == 1


def test_the_conversation_of_an_outcome_is_that_of_its_row(world: World) -> None:
    items = world.get("/api/r/RUN/t/3/1/outline")["items"]
    raw = world.get("/api/r/RUN/t/3/1/raw")

    assert items[-1]["head"] == "It is seven."
    assert raw["text"].encode() == outcome_to_json(COMPLETED)


def test_a_failed_outcome_says_what_happened(world: World) -> None:
    [attempt] = world.get("/api/r/RUN/t/4/0/attempts")["attempts"]

    assert (attempt["number"], attempt["failure_class"]) == (3, "timeout")
    assert (attempt["message"], attempt["hint"]) == (FAILED.message, "wait longer")
    assert (attempt["body"], attempt["traceback"]) == ("504", "line")


def test_texts_of_outcomes_are_searched(world: World) -> None:
    lines = world.ask(f"/api/r/{world.run_id}/search?q=text:seven").body.splitlines()

    hits = [hit for line in lines for hit in json.loads(line)["hits"]]
    assert [(hit["task"], hit["match"]) for hit in hits] == [(3, "seven")]


def test_ids_are_text_with_a_tokenizer_of_this_machine(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"two": 0, "plus": 1, "?": 2}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="?")
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))

    texts = TokenTexts.load(tmp_path)
    assert texts.texts([0, 1, 99, None]) == ["two", "plus", "⟨99⟩", "⟨null⟩"]


@pytest.mark.parametrize("content", [None, "{"])
def test_a_folder_without_a_tokenizer_is_an_error(tmp_path: Path, content: str | None) -> None:
    pytest.importorskip("tokenizers")
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)

    with pytest.raises(ConfigError, match="tokenizer"):
        TokenTexts.load(tmp_path)

"""Files of training outcomes open as runs; token ids are shown as text with a local tokenizer."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from viewer_world import World, viewing

from listed_runs import answered
from palestra.errors import ConfigError, Outcome
from palestra.training import (
    Chain,
    Completed,
    Evidence,
    Failed,
    RawRow,
    Timings,
    Turn,
    outcome_to_json,
)
from palestra.viewer import TokenTexts, find_places
from profiled_runs import scored

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


def test_outcomes_are_named_by_the_stem_of_their_file_also_when_the_first_failed(
    tmp_path: Path,
) -> None:
    output = tmp_path / "outcomes.jsonl"
    output.write_bytes(outcome_to_json(FAILED) + b"\n")

    for name in (output, tmp_path / "outcomes"):
        [place] = find_places([str(name)]).runs
        assert place.outputs == (output,)


def test_the_conversation_of_an_outcome_is_that_of_its_row(world: World) -> None:
    items = world.get("/api/r/RUN/t/3/1/outline")["items"]
    raw = world.get("/api/r/RUN/t/3/1/raw")

    assert items[-1]["head"] == "It is seven."
    assert raw["text"].encode() == outcome_to_json(COMPLETED)


def test_a_failed_outcome_says_what_happened(world: World) -> None:
    reply = world.get("/api/r/RUN/t/4/0/attempts")
    [attempt] = reply["attempts"]

    assert (attempt["number"], attempt["failure_class"]) == (3, "timeout")
    assert (attempt["message"], attempt["hint"]) == (FAILED.message, "")
    assert "--rollout-timeout" in reply["next_action"]
    assert (attempt["body"], attempt["traceback"]) == ("504", "line")


def message(ids: list[int] | None = None) -> dict[str, Any]:
    """An answer of the model, with token ids after the prompt 1, 2."""
    lists = {"prompt_token_ids": [1, 2], "generation_token_ids": ids}
    tokens = {**lists, "generation_log_probs": [-0.5] * len(ids)} if ids is not None else {}
    return {"type": "message", "role": "assistant", "content": "hi", **tokens}


def tokens_of(folder: Path, outcome: Completed, *paths: str) -> list[Any]:
    """The replies about the tokens of one outcome."""
    output = folder / "outcomes.jsonl"
    output.write_bytes(outcome_to_json(outcome) + b"\n")
    with viewing(output, cache=folder / "cache") as world:
        return [world.get(f"/api/r/RUN/t/3/1/tokens{path}") for path in paths]


def sampled(*chains: Chain, items: Sequence[dict[str, Any]]) -> Completed:
    """The outcome of a rollout with these chains, whose row has these items."""
    row = RawRow({**scored(3, 1, 0.5), "response": {"output": items}})
    return msgspec.structs.replace(COMPLETED, chains=list(chains), raw=row)


TURNS = [Turn([1, 2], [3], [-0.5], 7, 7), Turn([4], [5, 6], [-0.5, -1.5], 7, 8, trained=False)]


def test_each_turn_of_an_outcome_has_its_weight_versions_and_mask(tmp_path: Path) -> None:
    carried = [message([3]), message([3, 4, 5, 6]) | {"prompt_token_ids": [1, 2, 3, 4]}]
    carried[1] |= {"generation_token_ids": [5, 6], "generation_log_probs": [-0.5, -1.5]}
    outcome = sampled(Chain(TURNS), items=carried)
    tokens, first, second = tokens_of(tmp_path, outcome, "", "/0", "/1")

    assert [(turn["at"], turn["weight_version"]) for turn in tokens["turns"]] == [
        (0, "7"),
        (1, "7 to 8"),
    ]
    assert (first["mask"], second["mask"]) == ([0, 0, 1], [0] * 6)
    assert second["ids"] == [1, 2, 3, 4, 5, 6]
    assert "too old" in tokens["turns"][1]["findings"][0]


def test_ids_that_only_the_model_server_captured_are_shown(tmp_path: Path) -> None:
    outcome = sampled(Chain(TURNS[:1]), Chain(TURNS[1:]), items=[message()])
    tokens, second = tokens_of(tmp_path, outcome, "", "/1")

    assert [(turn["at"], turn["prompt_ids"]) for turn in tokens["turns"]] == [(None, 2), (None, 1)]
    assert second["ids"] == [4, 5, 6]
    assert "captured" in tokens["findings"][0]


def test_a_masked_outcome_says_why_and_has_the_versions_of_its_attempt(tmp_path: Path) -> None:
    masked = {"masked": True, "mask_reason": "log prob 0 of turn 0 is NaN"}
    outcome = msgspec.structs.replace(sampled(items=[message([3])]), **masked)
    [tokens] = tokens_of(tmp_path, outcome, "")

    assert [turn["weight_version"] for turn in tokens["turns"]] == ["7 to 8"]
    assert masked["mask_reason"] in tokens["findings"][0]


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

"""`replay_model`: answers of a recorded run."""

import asyncio
import json
from pathlib import Path

import pytest

from palestra.errors import InputDataError
from palestra.fleet import server_client
from palestra.responses_api_models.replay_model.app import ReplayModel, ReplayModelConfig
from palestra.schema import to_plain
from palestra.testing import response_of

ROW = {
    "_ng_task_index": 0,
    "_ng_rollout_index": 0,
    "responses_create_params": {"input": [{"role": "user", "content": "2 + 2 = ?"}]},
    "response": to_plain(response_of("4")),
    "reward": 1.0,
}


def replay(path: Path) -> ReplayModel:
    config = ReplayModelConfig(name="policy_model", rollouts=str(path))
    return ReplayModel(config=config, server_client=server_client({}, {}))


def test_it_says_how_many_rollouts_it_replays(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_text(json.dumps(ROW) + "\n")

    assert asyncio.run(replay(path).check()) == "replays 1 recorded rollouts"


def test_it_does_not_start_without_its_file(tmp_path: Path) -> None:
    with pytest.raises(InputDataError):
        asyncio.run(replay(tmp_path / "rollouts.jsonl").start())

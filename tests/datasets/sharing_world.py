"""Someone with a file and a hub."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hub_fakes import WRITER, FakeHub
from palestra.datasets.hub import check_rows, target_of
from palestra.datasets.hub.calls import Hub
from palestra.datasets.hub.downloading import download
from palestra.datasets.hub.uploading import Uploaded, upload
from palestra.datasets.transfer.outgoing import outgoing
from palestra.datasets.transfer.patience import TransferPatience
from palestra.settings import HubDownload, HubUpload

CONFIG = "resources_servers/mcqa/configs/mcqa.yaml"
REPO = "acme/Nemotron-RL-knowledge-mcqa"
COLLECTION = "acme/nemo-gym-68c0ffee"


def rows(count: int, **extra: Any) -> list[dict[str, Any]]:
    """Rows that a trainer could read."""
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": f"question {n}"}]},
            "expected_answer": "A",
            "reward_profiles": [],
            **extra,
        }
        for n in range(count)
    ]


def jsonl(items: list[Any]) -> bytes:
    """As a file."""
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


@dataclass
class Moves:
    """Remembers what it was told of transfers."""

    started: list[tuple[str, int | None, int]] = field(default_factory=list)
    moved: int = 0
    ended: int = 0

    def start(self, name: str, total_bytes: int | None, done_bytes: int, /) -> None:
        self.started.append((name, total_bytes, done_bytes))

    def advance(self, count: int, /) -> None:
        self.moved += count

    def end(self) -> None:
        self.ended += 1


@dataclass
class World:
    """A folder, a hub, and what was shown of transfers."""

    folder: Path
    hub: FakeHub
    moves: Moves = field(default_factory=Moves)
    pauses: list[float] = field(default_factory=list)
    token: str | None = WRITER
    deadline_s: float = 30.0
    now: float = 0.0

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    @property
    def patience(self) -> TransferPatience:
        """Waits without waiting: its clock only runs while it pauses."""
        return TransferPatience(
            self.deadline_s, answer_timeout_s=5.0, clock=lambda: self.now, sleep=self._sleep
        )

    def client(self) -> Hub:
        """The hub as this user reaches it."""
        return Hub(self.token, self.hub.endpoint, self.patience)

    def write(self, data: bytes, name: str = "train.jsonl") -> Path:
        """A file to upload."""
        path = self.folder / name
        path.write_bytes(data)
        return path

    def upload(self, path: Path, **settings: Any) -> Uploaded:
        """As the command does."""
        given = HubUpload(
            input_jsonl_fpath=str(path),
            **{"hf_organization": "acme", "resource_config_path": CONFIG, **settings},
        )
        if given.split == "train":
            check_rows(path)
        return upload(outgoing(path), target_of(given), given, self.client(), self.moves)

    def download(self, **settings: Any) -> list[Path]:
        """As the command does, into the folder `out` unless told otherwise."""
        if "output_fpath" not in settings:
            settings["output_dirpath"] = str(self.folder / "out")
        return download(HubDownload(**{"repo_id": REPO, **settings}), self.client(), self.moves)

    def left(self) -> list[str]:
        """All files that a download left."""
        out = self.folder / "out"
        return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())

"""The capture files of rollouts: one JSON object per line, appended by every server that is called.

<id>.capture.jsonl        the model calls of rollout <id>
<id>.capture.incomplete   empty; a call of the rollout could not be written
<id>.tokens.jsonl         the token ids of its model calls
"""

import re
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.schema import JsonDict, encode_json
from palestra.system import open_locked, sync

_ID: Final = re.compile(r"[A-Za-z0-9._-]+")

LOCK_WAIT_S: Final = 60.0
"""Seconds to wait for another process that writes to the same file."""


class RolloutLines:
    """Files `<id><suffix>` in the folder `root`, which is created. Methods block on the disk."""

    suffix: str

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)

    def path_for(self, rollout_id: str) -> Path:
        """Return the path of the rollout's file. Raises ValueError: the id has other characters
        than letters, digits, `.`, `_` and `-`.
        """
        return self._path(rollout_id, self.suffix)

    def record(self, rollout_id: str, exchange: JsonDict) -> None:
        """Append one line, and return when it is on the disk. Raises OSError; ValueError for the
        id.
        """
        line = encode_json(exchange) + b"\n"
        with open_locked(self.path_for(rollout_id), wait_s=LOCK_WAIT_S) as file:
            size = file.seek(0, 2)
            if size:
                # A killed writer may have left half a line, which must not swallow this one.
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            file.write(line)
            sync(file)

    def read(self, rollout_id: str) -> list[JsonDict]:
        """Return all lines of the rollout; empty without a file. Raises ValueError: a line is
        damaged.
        """
        exchanges: list[JsonDict] = []
        for number, raw in enumerate(self._lines(rollout_id), start=1):
            exchange = _object(raw)
            if exchange is None:
                path = self.path_for(rollout_id)
                raise ValueError(f"{path} line {number} is not a JSON object")
            exchanges.append(exchange)
        return exchanges

    def read_available(self, rollout_id: str) -> tuple[list[tuple[int, JsonDict]], int]:
        """Return the readable lines, each with its index in the file, and the number of damaged
        ones.
        """
        lines = [_object(raw) for raw in self._lines(rollout_id)]
        readable = [(index, line) for index, line in enumerate(lines) if line is not None]
        return readable, len(lines) - len(readable)

    def _lines(self, rollout_id: str) -> list[bytes]:
        try:
            content = self.path_for(rollout_id).read_bytes()
        except FileNotFoundError:
            return []
        return [line for line in content.split(b"\n") if line.strip()]

    def _path(self, rollout_id: str, suffix: str) -> Path:
        if not _ID.fullmatch(rollout_id):
            raise ValueError(
                f"{rollout_id!r} is not a rollout id: use letters, digits, '.', '_' and '-'"
            )
        return self.root / f"{rollout_id}{suffix}"


class CaptureStore(RolloutLines):
    """The captured model calls, by rollout."""

    suffix = ".capture.jsonl"

    def incomplete_path_for(self, rollout_id: str) -> Path:
        """Return the path of the file that marks a rollout whose capture lacks a call."""
        return self._path(rollout_id, ".capture.incomplete")

    def mark_incomplete(self, rollout_id: str) -> None:
        """Mark that a call of the rollout could not be written."""
        self.incomplete_path_for(rollout_id).touch()

    def is_incomplete(self, rollout_id: str) -> bool:
        """Whether a call of the rollout could not be written."""
        return self.incomplete_path_for(rollout_id).exists()


class TokenStore(RolloutLines):
    """The token ids of model calls, by rollout."""

    suffix = ".tokens.jsonl"


def clear_capture(root: Path, rollout_id: str) -> None:
    """Remove the capture files of a rollout, so that a new attempt begins with none."""
    if not root.is_dir():
        return
    calls, tokens = CaptureStore(root), TokenStore(root)
    for path in (
        calls.path_for(rollout_id),
        calls.incomplete_path_for(rollout_id),
        tokens.path_for(rollout_id),
    ):
        path.unlink(missing_ok=True)


def _object(raw: bytes) -> JsonDict | None:
    try:
        value: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None

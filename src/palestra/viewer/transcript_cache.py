"""Keeps the last conversations that were looked at, split: where their items are, not their texts."""

import threading
from collections import OrderedDict
from typing import Final, final

from palestra.system import FileState
from palestra.viewer.conversation import Transcript, conversation_of
from palestra.viewer.index import IndexedPlace, IndexSnapshot, RunPart

MOST_BYTES: Final = 64 << 20
"""The memory of all conversations that are kept. One that alone takes more is not."""
MOST_TRANSCRIPTS: Final = 64

_Key = tuple[tuple[IndexedPlace, FileState], ...]
"""The rows that a conversation is read from, and what their files were like."""


@final
class TranscriptCache:
    """The conversations of all runs of a viewer. Safe to use from several threads.

    A conversation is split anew when a file of its rows was written or replaced since.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Create it. `most_bytes`: the memory of all that is kept."""
        self._most_bytes = most_bytes
        self._last: OrderedDict[_Key, Transcript] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def memory_bytes(self) -> int:
        """At most how much memory the conversations take."""
        with self._lock:
            return self._memory_bytes()

    def of(self, snapshot: IndexSnapshot, row: int) -> Transcript:
        """Return the conversation of a rollout, split. Raises InputDataError: no file holds its row.
        Raises RunChanged.
        """
        key = _key(snapshot, row)
        if key is None:
            return conversation_of(snapshot, row)
        with self._lock:
            talk = self._last.get(key)
        if talk is None:
            talk = conversation_of(snapshot, row)
        with self._lock:
            talk = self._last.setdefault(key, talk)
            self._last.move_to_end(key)
        len(talk.items)  # splits it, if no other request has
        with self._lock:
            if talk.memory_bytes > self._most_bytes:
                self._last.pop(key, None)
            self._drop_oldest()
        return talk

    def _drop_oldest(self) -> None:
        while self._last and (
            self._memory_bytes() > self._most_bytes or len(self._last) > MOST_TRANSCRIPTS
        ):
            self._last.popitem(last=False)

    def _memory_bytes(self) -> int:
        return sum(talk.memory_bytes for talk in self._last.values())


def _key(snapshot: IndexSnapshot, row: int) -> _Key | None:
    """Return what the conversation of a rollout depends on; None while a file may change without
    another state.
    """
    row_places = _row_places(snapshot, row)
    states = [FileState.at(row_place.path) for row_place in row_places]
    settled = [state for state in states if state is not None and state.is_settled]
    if len(settled) < len(states):
        return None
    return tuple(zip(row_places, settled, strict=True))


def _row_places(snapshot: IndexSnapshot, row: int) -> list[IndexedPlace]:
    """Return the places of all rows that a conversation may be read from."""
    result = snapshot.place(row, RunPart.RESULT)
    if result is not None:
        return [result]
    others = (snapshot.place(row, part) for part in (RunPart.INPUT, RunPart.FAILURE))
    return [*filter(None, others), *snapshot.attempts(row)]

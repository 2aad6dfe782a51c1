"""The office's records, and the changes of one rollout.

`Office` is loaded once and never changed. `Workplace` is the view of one rollout. It stores only
the rollout's changes, so a session needs no copy of all records.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

import orjson

from palestra.errors import ConfigError

Record = Mapping[str, str]

TABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "emails": (
            "email_id",
            "inbox/outbox",
            "sender/recipient",
            "subject",
            "sent_datetime",
            "body",
        ),
        "events": ("event_id", "event_name", "participant_email", "event_start", "duration"),
        "visits": (
            "visitor_id",
            "date_of_visit",
            "page_views",
            "session_duration_seconds",
            "traffic_source",
            "user_engaged",
        ),
        "tasks": ("task_id", "task_name", "assigned_to_email", "list_name", "due_date", "board"),
        "customers": (
            "customer_id",
            "customer_name",
            "assigned_to_email",
            "customer_email",
            "customer_phone",
            "last_contact_date",
            "product_interest",
            "status",
            "follow_up_by",
            "notes",
        ),
    }
)
"""The column names by table. The first column is the id of the record, eight digits."""


@dataclass(frozen=True, slots=True)
class Office:
    """All records by table and id, in order, and the email addresses of all people."""

    tables: Mapping[str, Mapping[str, Record]]
    addresses: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> "Office":
        """Read `{addresses: [...], emails: [{...}], ...}`. Raises ConfigError: the file is not
        valid.
        """
        try:
            decoded = orjson.loads(path.read_bytes())
            tables = {name: _by_id(name, decoded[name]) for name in TABLES}
            return cls(tables, tuple(map(str, decoded["addresses"])))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} cannot be read as the records of an office: {error!r}",
                hint="`make_office.py` in the server's folder writes such a file",
            ) from error


def _by_id(table: str, rows: list[dict[str, object]]) -> dict[str, Record]:
    columns = TABLES[table]
    return {str(row[columns[0]]): {name: str(row[name]) for name in columns} for row in rows}


@dataclass(slots=True)
class Workplace:
    """The office of one rollout: the original records and its own changes."""

    office: Office
    changed: dict[tuple[str, str], Record | None] = field(default_factory=dict)
    """The current state of changed records, by table and id; None for a deleted record."""
    added: dict[tuple[str, str], Record] = field(default_factory=dict)
    plots: list[str] = field(default_factory=list)

    def copy(self) -> "Workplace":
        """Return an independent copy of the current state."""
        return Workplace(self.office, dict(self.changed), dict(self.added), list(self.plots))

    def all(self, table: str) -> Iterator[Record]:
        """Yield the current records of a table in order, new ones last."""
        for number, record in self.office.tables[table].items():
            now = self.changed.get((table, number), record)
            if now is not None:
                yield now
        for (kind, number), record in self.added.items():
            now = self.changed.get((kind, number), record)
            if kind == table and now is not None:
                yield now

    def find(self, table: str, number: str) -> Record | None:
        """Return the current state of a record; None when it does not exist."""
        key = (table, number)
        if key in self.changed:
            return self.changed[key]
        return self.added.get(key) or self.office.tables[table].get(number)

    def put(self, table: str, number: str, record: Record | None) -> None:
        """Change a record; None deletes it."""
        self.changed[table, number] = record

    def add(self, table: str, record: Record) -> str:
        """Add a record and return its new id."""
        name = TABLES[table][0]
        new = sum(kind == table for kind, _ in self.added)
        number = f"{max(map(int, self.office.tables[table]), default=0) + new + 1:08d}"
        self.added[table, number] = {name: number, **record}
        return number

    def effects(self) -> "Effects":
        """Return the differences from the original office, however they were made."""
        edits = {
            key: None if now is None else _folded(now)
            for key, now in self.changed.items()
            if key not in self.added and self._differs(key, now)
        }
        born = Counter(
            (table, tuple(sorted(_without_id(table, _folded(now)).items())))
            for (table, number), record in self.added.items()
            if (now := self.changed.get((table, number), record)) is not None
        )
        return Effects(edits, born, Counter(plot.casefold() for plot in self.plots))

    def _differs(self, key: tuple[str, str], now: Record | None) -> bool:
        """Whether a record differs from its original. A record that this office never had always
        differs.
        """
        table, number = key
        before = self.office.tables[table]
        return number not in before or now != before[number]


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of a rollout on the office. Rollouts that changed the same have equal effects."""

    edits: Mapping[tuple[str, str], Mapping[str, str] | None]
    born: Counter[tuple[str, tuple[tuple[str, str], ...]]]
    """New records by content, because their ids depend on the order in which they were made."""
    plots: Counter[str]


def _folded(record: Record) -> dict[str, str]:
    """Convert a record to lower case, because prompts do not state how names are spelled."""
    return {name: value.casefold() for name, value in record.items()}


def _without_id(table: str, record: Record) -> dict[str, str]:
    return {name: value for name, value in record.items() if name != TABLES[table][0]}

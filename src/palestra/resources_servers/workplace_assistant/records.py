"""The office's records, and what one rollout changes of them.

`Office` is loaded once and never changed. `Workplace` is one rollout's view of it: it keeps only
what the rollout changed, so that a session costs what it did and not a copy of everything.
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
"""Column names by table; the first is the record's id, eight digits."""


@dataclass(frozen=True, slots=True)
class Office:
    """All records by table and id, in order, and the people's addresses."""

    tables: Mapping[str, Mapping[str, Record]]
    addresses: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> "Office":
        """Read `{addresses: [...], emails: [{...}], ...}`. Raises ConfigError naming what is wrong."""
        try:
            held = orjson.loads(path.read_bytes())
            tables = {name: _by_id(name, held[name]) for name in TABLES}
            return cls(tables, tuple(map(str, held["addresses"])))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} is not the records of an office: {error!r}",
                hint="`make_office.py` beside the server writes one",
            ) from error


def _by_id(table: str, rows: list[dict[str, object]]) -> dict[str, Record]:
    columns = TABLES[table]
    return {str(row[columns[0]]): {name: str(row[name]) for name in columns} for row in rows}


@dataclass(slots=True)
class Workplace:
    """One rollout's office."""

    office: Office
    changed: dict[tuple[str, str], Record | None] = field(default_factory=dict)
    """By table and id, records as they are now; None for one that was deleted."""
    added: dict[tuple[str, str], Record] = field(default_factory=dict)
    plots: list[str] = field(default_factory=list)

    def copy(self) -> "Workplace":
        """The same as it is now; what is changed later is changed in one of them."""
        return Workplace(self.office, dict(self.changed), dict(self.added), list(self.plots))

    def all(self, table: str) -> Iterator[Record]:
        """The records of a table as they are now, in order; new ones last."""
        for number, record in self.office.tables[table].items():
            now = self.changed.get((table, number), record)
            if now is not None:
                yield now
        for (kind, number), record in self.added.items():
            now = self.changed.get((kind, number), record)
            if kind == table and now is not None:
                yield now

    def find(self, table: str, number: str) -> Record | None:
        """One record as it is now."""
        key = (table, number)
        if key in self.changed:
            return self.changed[key]
        return self.added.get(key) or self.office.tables[table].get(number)

    def put(self, table: str, number: str, record: Record | None) -> None:
        """Change a record, or with None delete it."""
        self.changed[table, number] = record

    def add(self, table: str, record: Record) -> str:
        """Add a record under a new id, which it returns."""
        name = TABLES[table][0]
        new = sum(kind == table for kind, _ in self.added)
        number = f"{max(map(int, self.office.tables[table]), default=0) + new + 1:08d}"
        self.added[table, number] = {name: number, **record}
        return number

    def effects(self) -> "Effects":
        """What is different from the office as it was, whatever the way it came about."""
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
        """Whether a record is not as it was; one that this office never had surely is not."""
        table, number = key
        before = self.office.tables[table]
        return number not in before or now != before[number]


@dataclass(frozen=True, slots=True)
class Effects:
    """Two rollouts that did the same to the office have equal effects."""

    edits: Mapping[tuple[str, str], Mapping[str, str] | None]
    born: Counter[tuple[str, tuple[tuple[str, str], ...]]]
    """New records by content: their ids depend on the order in which they were made."""
    plots: Counter[str]


def _folded(record: Record) -> dict[str, str]:
    """Case does not matter: nobody is told how names are spelt."""
    return {name: value.casefold() for name, value in record.items()}


def _without_id(table: str, record: Record) -> dict[str, str]:
    return {name: value for name, value in record.items() if name != TABLES[table][0]}

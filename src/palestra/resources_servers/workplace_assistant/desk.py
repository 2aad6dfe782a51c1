"""`Desk`: the base class of the tool groups, and helpers for search results in pages."""

from collections.abc import Iterable, Mapping, Sequence

from palestra.resources_servers.workplace_assistant.records import TABLES, Office, Record, Workplace
from palestra.server import Session

PAGE_SIZE = 5
LARGEST_PAGE = 50

Output = dict[str, object]


def output(value: object) -> Output:
    """Wrap a value in the common form of tool outputs."""
    return {"output": value}


def holds_words(query: str, record: Record, fields: Sequence[str]) -> bool:
    """Whether every word of the query occurs in at least one of the fields."""
    text = " ".join(record[name] for name in fields).casefold()
    return all(word in text for word in query.casefold().split())


def contains(pattern: str | None, value: str) -> bool:
    """Whether `value` contains `pattern`, ignoring case. True when `pattern` is None."""
    return pattern is None or pattern.casefold() in value.casefold()


def within(low: str | None, value: str, high: str | None) -> bool:
    """Whether a date or time lies between two bounds, both included. ISO texts are compared as
    texts.

    A bound that is only a date includes the whole day.
    """
    if low is not None and value[: len(low)] < low:
        return False
    return high is None or value[: len(high)] <= high


def page_of(records: Iterable[Record], what: str, page: int, page_size: int) -> Output:
    """Return one page of the results, with the number of pages."""
    matches = [dict(record) for record in records]
    if not matches:
        return output(f"No {what} found.")
    size = min(max(page_size, 1), LARGEST_PAGE)
    pages = -(-len(matches) // size)
    page_records = matches[(max(page, 1) - 1) * size : max(page, 1) * size]
    return output(
        {what: page_records, "page": page, "pages": pages, "total": len(matches)}
        if page_records
        else f"There is no page {page}: there are {pages}."
    )


NOW = "2023-11-30 23:59:00"
"""The present time of every task, as its prompt states."""

_WORKPLACE = "workplace"
_UNSEEN = "taken_on_trust"


class Desk:
    """The tools' access to the office of a rollout, by session."""

    def office(self) -> Office:
        """Return the office's original records."""
        raise NotImplementedError

    def at(self, session: Session) -> Workplace:
        """Return the session's office, created on its first use."""
        stored = session.state.get(_WORKPLACE)
        if not isinstance(stored, Workplace):
            stored = session.state[_WORKPLACE] = Workplace(self.office())
        return stored

    def put_back(self, session: Session, workplace: Workplace) -> None:
        """Replace the session's office, for example by an earlier copy."""
        session.state[_WORKPLACE] = workplace

    def take_on_trust(self, session: Session, *, on: bool) -> None:
        """Set whether changes to records that this office does not have succeed.

        Needed for rows written for other records: their right answers name ids of those records.
        """
        session.state[_UNSEEN] = on

    def looked_up(self, session: Session, table: str, number: str, field: str) -> Output:
        """Return one field of one record, or an error text."""
        record = self.at(session).find(table, number)
        if record is None:
            return output(f"No {_thing(table)} with the ID {number}.")
        if field not in record:
            return output(_no_field(field, TABLES[table]))
        return output({field: record[field]})

    def updated(
        self, session: Session, table: str, number: str, changes: Mapping[str, str]
    ) -> Output:
        """Change fields of one record."""
        fields = TABLES[table][1:]
        if unknown := [name for name in changes if name not in fields]:
            return output(_no_field(unknown[0], fields))
        record = self._record(session, table, number)
        if record is None:
            return output(f"No {_thing(table)} with the ID {number}.")
        self.at(session).put(table, number, {**record, **changes})
        return output(f"The {_thing(table)} was updated.")

    def deleted(self, session: Session, table: str, number: str) -> Output:
        """Delete one record."""
        if self._record(session, table, number) is None:
            return output(f"No {_thing(table)} with the ID {number}.")
        self.at(session).put(table, number, None)
        return output(f"The {_thing(table)} was deleted.")

    def added(self, session: Session, table: str, record: Mapping[str, str]) -> Output:
        """Add a record."""
        return output(self.at(session).add(table, record))

    def _record(self, session: Session, table: str, number: str) -> Mapping[str, str] | None:
        workplace = self.at(session)
        record = workplace.find(table, number)
        if (
            record is None
            and number
            and session.state.get(_UNSEEN)
            and (table, number) not in workplace.changed
        ):
            return {TABLES[table][0]: number}
        return record


def _thing(table: str) -> str:
    return table.removesuffix("s")


def _no_field(field: str, fields: tuple[str, ...]) -> str:
    return f"There is no field {field!r}. Fields: {', '.join(fields)}."

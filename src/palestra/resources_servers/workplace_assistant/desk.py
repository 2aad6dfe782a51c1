"""`Desk`: what every group of tools needs of the server that has them, and lists in pages."""

from collections.abc import Iterable, Mapping, Sequence

from palestra.resources_servers.workplace_assistant.records import TABLES, Office, Record, Workplace
from palestra.server import Session

PAGE_SIZE = 5
LARGEST_PAGE = 50

Output = dict[str, object]


def output(value: object) -> Output:
    """A tool's answer, in the shape of all of them."""
    return {"output": value}


def holds_words(query: str, record: Record, fields: Sequence[str]) -> bool:
    """Whether every word of the query is in one of the fields."""
    text = " ".join(record[name] for name in fields).casefold()
    return all(word in text for word in query.casefold().split())


def contains(wanted: str | None, value: str) -> bool:
    """Whether nothing is wanted, or the value has it in it."""
    return wanted is None or wanted.casefold() in value.casefold()


def within(low: str | None, value: str, high: str | None) -> bool:
    """Whether a date or time lies between the two, both included; ISO texts compare as they are.

    A bound that is a date alone holds the whole day.
    """
    if low is not None and value[: len(low)] < low:
        return False
    return high is None or value[: len(high)] <= high


def page_of(records: Iterable[Record], what: str, page: int, page_size: int) -> Output:
    """One page of what was found, with how many pages there are."""
    found = [dict(record) for record in records]
    if not found:
        return output(f"No {what} found.")
    size = min(max(page_size, 1), LARGEST_PAGE)
    pages = -(-len(found) // size)
    shown = found[(max(page, 1) - 1) * size : max(page, 1) * size]
    return output(
        {what: shown, "page": page, "pages": pages, "total": len(found)}
        if shown
        else f"There is no page {page}: there are {pages}."
    )


NOW = "2023-11-30 23:59:00"
"""When every task takes place, as their prompts say."""

_WORKPLACE = "workplace"
_UNSEEN = "taken_on_trust"


class Desk:
    """A rollout's office, by its session."""

    def office(self) -> Office:
        """The records as they are at first."""
        raise NotImplementedError

    def at(self, session: Session) -> Workplace:
        """The session's office, opened on its first use."""
        found = session.state.get(_WORKPLACE)
        if not isinstance(found, Workplace):
            found = session.state[_WORKPLACE] = Workplace(self.office())
        return found

    def put_back(self, session: Session, workplace: Workplace) -> None:
        """Make the session's office what it was."""
        session.state[_WORKPLACE] = workplace

    def take_on_trust(self, session: Session, *, on: bool) -> None:
        """Whether changes of records that this office does not have count as done.

        For rows that were made over other records: their right answers name ids of those.
        """
        session.state[_UNSEEN] = on

    def looked_up(self, session: Session, table: str, number: str, field: str) -> Output:
        """One field of one record."""
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
        record = self._known(session, table, number)
        if record is None:
            return output(f"No {_thing(table)} with the ID {number}.")
        self.at(session).put(table, number, {**record, **changes})
        return output(f"The {_thing(table)} was updated.")

    def deleted(self, session: Session, table: str, number: str) -> Output:
        """Delete one record."""
        if self._known(session, table, number) is None:
            return output(f"No {_thing(table)} with the ID {number}.")
        self.at(session).put(table, number, None)
        return output(f"The {_thing(table)} was deleted.")

    def added(self, session: Session, table: str, record: Mapping[str, str]) -> Output:
        """Add a record."""
        return output(self.at(session).add(table, record))

    def _known(self, session: Session, table: str, number: str) -> Mapping[str, str] | None:
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

"""What searches share: matching words, dates and pages."""

from collections.abc import Iterable, Sequence

from palestra.resources_servers.workplace_assistant.records import Record

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

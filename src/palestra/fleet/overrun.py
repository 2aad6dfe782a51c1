"""A call of an author's that holds its process: where it executes, and what that means to its rollout."""

import msgspec

from palestra.errors import CallError, RowIdentity, add_row
from palestra.fleet.stacks import place_on
from palestra.server import AuthorCall, AuthorsPlace, overran
from palestra.system import Executing


def overrun(call: Executing, stacks: str, lasted_s: float) -> CallError | None:
    """The failure of the rollout whose call holds its process for too long.

    `stacks`: what the process said of its threads, empty when it said nothing. None when what is
    executing is no call of a server.
    """
    author = author_call(call)
    if author is None:
        return None
    place = executing_place(call, stacks)
    error = overran(author.server, author.path, place, lasted_s, server_type=author.server_type)
    error.verify_request = author.verify_request or None
    return add_row(error, author.row)


def blocking(call: Executing | None, stacks: str) -> str:
    """Who holds a process, as the beginning of a sentence. `call`: what it is known to execute."""
    author = None if call is None else author_call(call)
    place = place_on(stacks) if call is None else executing_place(call, stacks)
    where = f" ({place})" if place.file else ""
    if author is None:
        return f"something has been blocking the event loop{where}"
    row = f" of {row_name(author.row)}" if author.row is not None else ""
    return f"{author.server}{author.path}{row} has been blocking the event loop{where}"


def row_name(row: RowIdentity) -> str:
    """`rollout 2:0`; `row 2` where there is no rollout of it."""
    return f"row {row.task}" if row.rollout is None else f"rollout {row.task}:{row.rollout}"


def author_call(call: Executing) -> AuthorCall | None:
    """What is executing, as its server told it."""
    try:
        return msgspec.json.decode(call.text, type=AuthorCall)
    except msgspec.DecodeError:
        return None


def executing_place(call: Executing, stacks: str) -> AuthorsPlace:
    """Where a call is executing; where its function begins when its stack did not come."""
    place = place_on(stacks, call.ident)
    author = author_call(call)
    if place.file or author is None:
        return place
    return AuthorsPlace(author.function, author.file, author.line)

"""Warn of a field of the rows that an author's parameter hides: rows have `answer`, and so has `verify`."""

from collections.abc import Iterable, Iterator

from palestra.server.author_code import AuthorCode
from palestra.server.environments.parameters import MEANINGS, RESPONSE, TASK


def shadowed_fields(
    name: str,
    code: AuthorCode,
    parameters: Iterable[str],
    fields: Iterable[str],
) -> Iterator[str]:
    """Yield a sentence for each parameter that a field of the rows has the name of, and that is
    filled with something else.

    None for code that names the field, such as `task["answer"]`: its author knows.
    """
    row_fields = frozenset(fields)
    for parameter in sorted(MEANINGS.keys() & parameters & row_fields):
        # Code that names a field of the task knows that `task` is the row.
        field_names = row_fields if parameter == TASK else {parameter}
        if not code.texts & field_names:
            cure = (
                "rename the field, which no task has"
                if parameter == RESPONSE
                else f'the field is task["{parameter}"] (add the parameter task), or rename it'
            )
            yield (
                f"{code.place}the rows have a field {parameter!r}, but the parameter "
                f"{parameter} of {name} is {MEANINGS[parameter]}; {cure}"
            )

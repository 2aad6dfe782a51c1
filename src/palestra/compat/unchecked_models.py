"""A warning about an answer whose fields have other types than its model declares.

A model that `model_construct` made is not checked. Pydantic writes it with a warning of several
lines for every answer, which names neither the server nor the rollout.
"""

import logging
import re
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from palestra.transport import current_call

logger: Final = logging.getLogger("palestra.server")

_WRONG_TYPE: Final = re.compile(
    r"Expected `(?P<expected>.+?)` - .*\[field_name='(?P<name>.*?)'.*input_type=(?P<type>[\w.]+)\]"
)


def warn_of_wrong_types(field: Any, where: str) -> None:
    """Let a route's response field write such an answer with one warning, at the first of them.

    `where`: server and path of the route.
    """
    adapter = getattr(field, "_type_adapter", None)
    if not isinstance(adapter, TypeAdapter):
        return
    is_reported = False

    def serialize_json(value: Any, **options: Any) -> bytes:
        nonlocal is_reported
        how = {"by_alias": True, **options}
        try:
            return adapter.dump_json(value, **how, warnings="error")
        except PydanticSerializationError as error:
            content = adapter.dump_json(value, **how, warnings="none")
            if not is_reported:
                is_reported = True
                logger.warning("%s", _warning(where, value, str(error)))
            return content

    field.serialize_json = serialize_json


def _warning(where: str, value: Any, text: str) -> str:
    kind = type(value).__name__
    fields = dict.fromkeys(
        f"{match['name']}: {match['type']}, expected {match['expected']}"
        for match in map(_WRONG_TYPE.search, text.splitlines())
        if match
    )
    row = current_call().row
    rollout = "" if row is None else f" in rollout {row.task}:{row.rollout}, and perhaps in others"
    return (
        f"{where} returned a {kind} with fields of other types{rollout} ({'; '.join(fields)}); "
        f"model_construct checks nothing: write {kind}(…)"
    )

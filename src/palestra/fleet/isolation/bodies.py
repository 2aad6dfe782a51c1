"""A call's body on its way to a worker.

Objects of the schema go as JSON and are validated there, as over HTTP: together less than half of
what it takes to pickle them. Anything else in the body, a row's model of the author's, is pickled.
"""

import io
import pickle
from typing import Any, final

import orjson
from pydantic import BaseModel

from palestra.schema import encode_json
from palestra.schema.encoding import WIRE_TYPES


def body_bytes(body: Any) -> bytes:
    """The bytes of a body. Raises TypeError, AttributeError or PicklingError for what has none."""
    file = io.BytesIO()
    _Compact(file, protocol=5).dump(body)
    return file.getvalue()


def exact_body_bytes(body: Any) -> bytes:
    """The same with all objects pickled: some were made without being validated."""
    return pickle.dumps(body, protocol=5)


def read_body(content: bytes) -> Any:
    """The inverse of both. Raises what the classes of the objects raise."""
    return pickle.loads(content)  # noqa: S301  # from the process that made us


def _as_json(value: BaseModel) -> tuple[Any, ...]:
    return _from_json, (type(value), encode_json(value))


def _from_json(kind: type[BaseModel], content: bytes) -> BaseModel:
    return kind.model_validate(orjson.loads(content))


@final
class _Compact(pickle.Pickler):
    dispatch_table = dict.fromkeys(WIRE_TYPES, _as_json)

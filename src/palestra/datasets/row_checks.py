"""One row of a dataset: whether it can be used, and if not, why."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from palestra.datasets.plain_requests import PLAIN_REQUEST
from palestra.datasets.prompts import PromptTemplate
from palestra.datasets.request_models import DoorKeeper, RowEndpoint
from palestra.schema import CREATE_PARAMS, JsonObject, Line, ResponseCreateParams, rejected_fields

KNOWN_PARAMS: Final = frozenset(ResponseCreateParams.model_fields)


TOO_DEEP: Final = "nested too deeply"


class RowCheck:
    """Holds rows to JSON, to the Responses API, and to what the servers behind `doors` take.

    `prompt`: rows are filled into it before, and have no input of their own.
    """

    def __init__(
        self, doors: Sequence[RowEndpoint] = (), *, prompt: PromptTemplate | None = None
    ) -> None:
        from jsonschema_rs import validator_for

        self._keeper = DoorKeeper(list(doors))
        self._prompt = prompt
        self._plain = validator_for(PLAIN_REQUEST)
        self.unknown_params: set[str] = set()
        """Parameters that came by and are none that we know."""

    def passes(self, row: Any) -> bool:
        """Whether there is nothing wrong with `row`."""
        try:
            params = row[CREATE_PARAMS]
        except (KeyError, TypeError, IndexError):
            return False
        try:
            if not self._plain.is_valid(params):
                ResponseCreateParams.model_validate(params)
            admitted = self._keeper.admits(row)
        except (ValueError, RecursionError):  # of pydantic, or nested deeper than validators go
            return False
        if not params.keys() <= KNOWN_PARAMS:
            self.unknown_params |= params.keys() - KNOWN_PARAMS
        return admitted

    def problems(self, line: Line) -> Iterator[str]:
        """All that is wrong with a row, each with a JSON pointer."""
        if line.error:
            yield line.error
        elif not isinstance(line.row, Mapping):
            yield "not a JSON object"
        else:
            try:
                yield from self._of_row(line.row)
            except (ValueError, RecursionError):  # the validators' own: no model's is left by now
                yield TOO_DEEP

    def _of_row(self, row: JsonObject) -> Iterator[str]:
        params = row.get(CREATE_PARAMS)
        if params is None:
            yield f"no `{CREATE_PARAMS}`"
        elif not isinstance(params, Mapping):
            yield f"/{CREATE_PARAMS}: should be an object"
        else:
            try:
                ResponseCreateParams.model_validate(params)
            except ValidationError as error:
                for field in rejected_fields(params, error):
                    yield f"/{CREATE_PARAMS}{field.pointer}: {field.expected}"
        yield from self._keeper.problems(row)

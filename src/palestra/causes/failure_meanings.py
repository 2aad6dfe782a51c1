"""What recorded failures mean: the layer and the cause that the table gives them.

One failure has one layer: that of its cause in the table, by the recorded cause or by its text; the
layer of its class, which the row has, where the table does not know it. The doctor, the report,
`show` and the viewer all ask here.
"""

import re
from functools import lru_cache
from typing import Any, Final, final

from palestra.causes.failure_texts import failure_text
from palestra.causes.signatures import Signature, SignatureTable, short_text
from palestra.schema import FAILURE_LAYER, JsonObject

MOST_REMEMBERED: Final = 2_000
"""So many texts of `LONGEST_TEXT` characters at most are remembered, those used last."""
_LONG_NUMBER: Final = re.compile(r"\d{4,}")
"""Ports, sizes and times. Statuses and exit codes, which patterns name, are shorter."""


@final
class FailureMeanings:
    """Looks up failures. Texts that differ in long numbers alone are looked up once.

    The meaning of a failure does not depend on those that were looked up before.
    """

    def __init__(self) -> None:
        # The table is read when a failure is looked up: most rollouts have none.
        self._explain = lru_cache(MOST_REMEMBERED)(
            lambda text: SignatureTable.load().explain("", text)
        )

    def of(self, cause: str, hops: Any, message: str) -> Signature | None:
        """Return the entry of the table, as `diagnose` finds it; None without one."""
        by_cause = SignatureTable.load().by_cause.get(cause)
        if by_cause is not None:
            return by_cause
        return self._explain(_LONG_NUMBER.sub("0000", short_text(failure_text(hops, message))))

    def layer_and_cause(self, row: JsonObject) -> tuple[str, str]:
        """Return the layer and the cause of a failed attempt, from its row."""
        cause, message = str(row.get("cause") or ""), str(row.get("message") or "")
        signature = self.of(cause, row.get("hops"), message)
        if signature is None:
            return str(row.get(FAILURE_LAYER) or ""), cause
        return signature.layer.value, signature.cause

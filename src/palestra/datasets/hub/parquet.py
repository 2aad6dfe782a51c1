"""Parquet to JSONL, a batch of rows at a time."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

import orjson

from palestra.datasets.extras import needs
from palestra.errors import InputDataError

ROWS_AT_ONCE: Final = 1000


def write_rows(parquet: Path, output: IO[bytes]) -> int:
    """Append the rows of a Parquet file as JSON lines; how many there were.

    Raises InputDataError when the file is not Parquet, or a value has no form in JSON.
    """
    needs("pyarrow", extra="parquet", what="reading Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 0
    try:
        with pq.ParquetFile(parquet) as file:
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    output.write(orjson.dumps(row, default=_plain) + b"\n")
                    count += 1
    except (pa.ArrowInvalid, orjson.JSONEncodeError) as error:
        raise InputDataError(f"row {count + 1} of {parquet.name}: {error}") from None
    return count


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"{type(value).__name__} has no form in JSON")

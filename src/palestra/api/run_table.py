"""A run as a table: one row per requested rollout."""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from palestra.analysis import RunFrame, read_texts, read_unscored_numbers
from palestra.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

NOT_ENDED: Final = "not ended"
"""The outcome of rollouts that are still to run."""


def arrow_table(frame: RunFrame) -> "pa.Table":
    """Return the table. Raises ConfigError: PyArrow is not installed."""
    try:
        import pyarrow as pa
    except ImportError:
        raise _not_installed("to_arrow", "pyarrow", "palestra[parquet]") from None
    columns = _columns(frame)
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


def data_frame(frame: RunFrame) -> "pd.DataFrame":
    """Return the table. Raises ConfigError: pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise _not_installed("to_pandas", "pandas", "pandas") from None
    return pd.DataFrame(_columns(frame))


def _columns(frame: RunFrame) -> dict[str, Any]:
    requests, of_scored = frame.requests, dict(frame.rollouts.columns.values)  # no data frame
    outcome_names = (*requests.outcome_names, NOT_ENDED)
    columns: dict[str, Any] = {
        "task": [requests.tasks[at] for at in requests.keys.task.tolist()],
        "rollout": requests.keys.rollout,
        "outcome": [outcome_names[code] for code in requests.outcome.tolist()],
    }
    of_unscored = dict(read_unscored_numbers(frame))
    for name, values in of_scored.items():
        column = of_unscored.pop(name, np.full(len(requests), np.nan))
        column[requests.scored] = values
        columns.setdefault(name, column)
    for name, column in of_unscored.items():
        columns.setdefault(name, column)
    for name, texts in read_texts(frame).items():
        if not name.startswith("_"):
            columns.setdefault(name, texts)
    return columns


def _not_installed(function: str, package: str, install: str) -> ConfigError:
    return ConfigError(f"{function} needs {package}", hint=f"pip install '{install}'")

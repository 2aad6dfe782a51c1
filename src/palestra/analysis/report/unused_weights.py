"""Finds the weights of environments that had no effect in a run."""

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.rows import rollout_rows
from palestra.errors import InputDataError
from palestra.metrics import component_fields, distinct
from palestra.schema import UNUSED_WEIGHTS, UnusedWeights, WeightUse


def unused_weights(frame: RunFrame) -> tuple[UnusedWeights, ...]:
    """Return the unused weights of each agent. Reads the first row of each agent again; of rows that
    have changed since the frame was made, nothing is known.
    """
    try:
        return tuple(_weight_use(frame).unused())
    except InputDataError:
        return ()


def _weight_use(frame: RunFrame) -> WeightUse:
    use = WeightUse()
    codes = frame.agents.codes[frame.requests.scored]
    order = np.lexsort((frame.rollout_places.offset, frame.rollout_places.file))
    columns = frame.rollouts.columns.values
    for code in distinct(codes).tolist():
        rows = codes == code
        first = int(order[np.argmax(rows[order])])
        ((_, row),) = rollout_rows(frame, [first], frozenset({UNUSED_WEIGHTS}))
        components = {
            name
            for name, field in component_fields(frame.rollouts.columns).items()
            if not np.isnan(columns[field][rows]).all()
        }
        agent = frame.agents.names[code].name if code >= 0 else ""
        use.add(agent, row.get(UNUSED_WEIGHTS), components)
    return use

"""Which workers a configuration asks for."""

from collections.abc import Sequence

from palestra.sandbox.workers.local import LocalWorkers
from palestra.sandbox.workers.outcomes import Workers


def open_workers(*, ray_address: str | None = None, preload: Sequence[str] = ()) -> Workers:
    """Workers on this machine's cores, or on those of the Ray cluster at `ray_address`.

    Nothing starts, and Ray is not imported, before the first call. Raises ConfigError when an
    address is given and Ray is not installed.
    """
    if not ray_address:
        return LocalWorkers(preload=preload)
    from palestra.sandbox.workers.cluster import RayWorkers

    return RayWorkers(ray_address, preload=preload)

"""Ray for the servers of a fleet.

place.py       where a fleet's Ray is, and how its processes get there
importing.py   notices the import of Ray
keeper.py      the process that keeps the fleet's own cluster
"""

from palestra.fleet.ray_clusters.place import RAY_ADDRESS, RayPlace, notice_ray_here

__all__ = ["RAY_ADDRESS", "RayPlace", "notice_ray_here"]

"""Ray for the servers of a fleet.

place.py       where a fleet's Ray is, and how its processes get there
importing.py   notices the import of Ray
keeper.py      the process that keeps the fleet's own cluster
"""

"""Ray for the servers of a fleet.

- `place.py`: where a fleet's Ray cluster is, how its processes connect to it, and the import hook;
- `keeper.py`: the process that runs the fleet's own cluster.
"""

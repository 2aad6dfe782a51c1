"""`palestra cluster`: what its commands do. Their flags are in `palestra.cli.commands`.

- `runs.py`: submit a run; its status, logs, cancel and retry-failed, from its ledger
- `main_steps.py`: the main steps of its jobs: prepare, collect a shard, merge, profile
- `ray_node.py`: one node of a job's Ray cluster
"""

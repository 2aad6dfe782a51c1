"""`palestra cluster`: what its commands do; the flags stand in `palestra.cli.commands`.

driving.py     the main step of a shard's job: collect its rows
gathering.py   the main steps of merge and profile jobs
ray_node.py    one node of a job's Ray cluster
following.py   status, logs, cancel and retry-failed of a run, from its ledger
"""

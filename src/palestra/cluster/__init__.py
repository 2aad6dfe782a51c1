"""Rollouts over many jobs of a cluster: plan, render, submit; what runs inside a job; the ledger.

    options.py      what a user asks for, checked
    configs.py      cluster config files: executor, containers, mounts, partitions
    planner.py      options and a cluster -> a `Run`: pure, no Slurm
    plan.py         the `Run` itself, frozen and serialisable: the contract with what runs in a job
    layout.py       the name of every file in a run's output folder
    render.py       a `Run` -> batch scripts
    executors/      batch scripts -> jobs: submit, status, cancel, logs

The batch script starts one supervisor, of the standard library only, which reads `plan.json`.
"""

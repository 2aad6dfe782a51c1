"""The program that runs on a batch node: one supervisor for each job, the same for every executor.

It starts the components of its job, waits until the services are ready, runs the main step and
watches all of them. It reports the outcome in its exit code, in `result.json`, in the ledger, and
for a shard in the done file.

Uses only the standard library of Python 3.8 or later, since the batch node may have nothing else.

    __main__.py    arguments, signals, the exit code; puts a drained job back into the queue
    supervise.py   one job from start to finish
    context.py     what all parts share: the job, where it runs, its files
    services.py    a service (port, endpoint, probe, restarts), and the main step
    probe.py       the check that a server is ready
    steps.py       a component -> the command that runs it: `srun`, a container, a plain process
    processes.py   starts and ends processes, and leaves none behind
    keyed.py       runs a server that takes its API key as an argument
    slurm.py       the few Slurm commands that a supervisor uses

It imports shared modules of `palestra.cluster`; these import nothing of it.
"""

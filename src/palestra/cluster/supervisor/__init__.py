"""What runs on a batch node: one supervisor for each job, for every executor the same.

It starts the components of its job, waits until the services are ready, runs the main step,
watches all of them, and says in the end how it went: in its exit code, in `result.json`, in the
ledger, and for a shard in the done file.

Standard library only, and of any Python from 3.8 on: the batch node may have nothing else.

    __main__.py    arguments, signals, the exit code; a drained job goes back into the queue
    task.py        the job that it runs
    supervise.py   one job from start to finish
    services.py    a service: port, endpoint, probe, restarts
    main_step.py   the main step: what it runs, when it has to end
    probe.py       whether a server is ready; alone as a command too
    steps.py       a component -> the command that runs it: `srun`, a container, a plain process
    processes.py   starting, minding and ending processes
    keyed.py       a server that takes its key as an argument
    slurm.py       the few Slurm commands that are asked

It imports the ground that it shares with the rest of `palestra.cluster`, which imports nothing of it.
"""

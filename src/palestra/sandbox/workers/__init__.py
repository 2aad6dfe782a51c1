"""CPU workers: they run trusted functions on untrusted data, in processes that can be killed.

    workers = open_workers(preload=["package.module:warm_up"])
    outcome = await workers.call("package.module:function", text, limit_s=10.0)
    match outcome:
        case Returned(value): ...
        case TimedOut() | OutOfMemory() | Crashed(): ...   # caused by the data
        case Raised(): ...                                 # the function's own exception
    await workers.close()

The type shows the cause. What the data made the function do is returned as an outcome. When the
workers themselves fail (a failed start, a process killed from outside), `WorkersBroken` is raised.

The parts on one machine:

- *Nursery*: a small process of ours that imports what the functions need, once, and then forks
  workers on demand, in milliseconds. It has no threads and no event loop.
- *Worker*: a fork of the nursery. It reads a call from its socket, runs it in its main thread,
  and answers. It is replaced after a number of calls, or when its memory has grown too much.
- *Line*: a second socket between us and the nursery, one per worker. When we close our end, the
  nursery kills the worker. When the worker ends, the nursery writes how it ended. So a worker
  never outlives its caller: a cancelled call and a process killed by SIGKILL both close the line.
"""

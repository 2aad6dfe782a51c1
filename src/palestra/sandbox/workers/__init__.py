"""CPU workers: trusted functions over untrusted data, in processes that can be killed.

    workers = open_workers(preload=["package.module:warm_up"])
    outcome = await workers.call("package.module:function", text, limit_s=10.0)
    match outcome:
        case Returned(value): ...
        case TimedOut() | OutOfMemory() | Crashed(): ...   # the data's fault
        case Raised(): ...                                 # the function's own exception
    await workers.close()

Whose fault it is, is in the type: what the data made the function do is an outcome; workers that
do not work (a start that fails, a process killed from outside) are raised as `WorkersBroken`.

How it holds together on one machine:

- *Nursery*: a small process of ours that imports what functions need, once, and then forks
  workers on demand, in milliseconds. It has no threads and no event loop.
- *Worker*: a fork of the nursery. It reads a call from its socket, runs it in its main thread,
  answers, and is replaced after so many calls, or so much growth.
- *Line*: the nursery's end of a second socket per worker. When we close ours, the nursery kills
  that worker; when the worker ends, the nursery says how. So a worker lives exactly as long as
  somebody holds its line: a caller that is cancelled, a process that dies by SIGKILL, all close.
"""

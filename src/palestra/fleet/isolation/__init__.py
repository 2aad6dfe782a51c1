"""Run authors' synchronous code in worker processes that can be killed.

Code that holds the interpreter's lock (a regular expression, a C library) stops every thread, timer
and signal handler of its process. So an author's synchronous function runs in another process:

- `verify_calls`: calls of `verify` of an environment without state, in any free worker;
- `link`: a server's connection to one worker; `worker_pool`: workers without state;
- `session_workers`: workers of a class, which hold sessions; `replica`: what runs in such a worker;
- `session_places`: which worker holds a session; `client`: how a worker calls servers;
- `verify_worker`: what runs in a worker that only verifies;
- `failures`: the error for a call whose worker hangs, crashes or ends.

The package `palestra.sandbox.workers` starts and forks the workers.
"""

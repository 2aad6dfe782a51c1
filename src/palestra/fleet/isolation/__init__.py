"""Authors' synchronous code, in worker processes that can be killed.

Code that holds the interpreter's lock (a regular expression, a C library) stops every thread, timer
and signal handler of its process. So a synchronous function of an author's runs in another one:

- `functions`: the function of a one-file environment, in whichever worker is free;
- `link`: a server's end of one worker; `worker_pool`: workers without state;
- `session_workers`, `replica`: workers of a class, which hold sessions, and what runs in one;
- `session_places`: which worker a session lives in; `client`: how one calls servers;
- `function_worker`: what runs in a worker;
- `failures`: what it means when a worker hangs, crashes or ends, and where.

Nurseries and forks are those of `palestra.sandbox.workers`.
"""

"""Processes outside ours: a launcher, and for each program a keeper that enforces its limits.

The launcher is a small process with one thread. Forking it takes a millisecond, however large our
own process is. For each program it forks a keeper, which starts the program, watches it, and kills
the processes that are left. A keeper is connected to us only by its control socket. When the socket
closes, because the run was cancelled or our process ended, the keeper kills the program's process
tree, removes its files and exits.

These modules import the standard library only, because the launcher starts without other packages.
"""

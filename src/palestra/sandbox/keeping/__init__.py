"""What runs outside our process: a launcher, and for each program a keeper that holds its limits.

The launcher is a small process of one thread; forking it costs a millisecond, whatever our own
process weighs. For each program it forks a keeper, which starts the program, watches it and kills
what is left of it. A keeper is bound to us by its control socket alone: when that closes, because
the run was cancelled or because we are gone, it kills the program's whole tree, removes its files
and ends.

These modules import the standard library only: the launcher is started with nothing else.
"""

"""How long each function of each server takes, for `+profiling_enabled=true`.

One process profiles everything that runs in it, with yappi. Where several servers share it, a
context variable says whose code runs, and yappi keeps the times of each apart. Nothing of this
package is imported unless profiling is on.
"""

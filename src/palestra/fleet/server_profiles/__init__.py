"""Measure how long each function of each server takes, for `+profiling_enabled=true`.

yappi profiles all code of a process. When several servers share the process, a context variable
holds the number of the server whose code runs, and yappi keeps separate times for each number. yappi
is imported only when profiling is on.
"""

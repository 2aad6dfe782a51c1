"""Decides whether one run is better than another: pairs their tasks, computes intervals and tests,
and accounts for missing rollouts.

`load_side` reads a run. `pair_tasks` matches the tasks of two runs and raises InputDataError for
tasks that do not match. `comparison_of` computes the statistics of the pairs, without I/O.
`judge_comparison` returns whether the regression gate passes.
"""

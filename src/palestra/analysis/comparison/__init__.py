"""Whether one run beats another: paired by task, with intervals, tests and what is missing.

`load_side` reads a run, `pair_tasks` matches the tasks of two and refuses what does not match, `comparison_of`
is pure statistics over the pairs, `judge_comparison` turns it into the answer of a gate.
"""

"""Verifying stored responses again, with today's verifiers and without a model call.

stored.py      the rollouts that are read, line by line, and where each is verified
unverified.py  the answers in a failures file, whose verification failed
task_rows.py   the inputs that fill in what a rollout lacks
verify.py      many rows at once, written in the order of the input; a session made again from the tool
               calls of its trajectory
files.py       the output, what is done of it so far, what it was made from, and the rows for which
               the command was ended, as their verification never returned
changes.py     how the rewards differ from those before
"""

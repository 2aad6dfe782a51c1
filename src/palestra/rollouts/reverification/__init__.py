"""Verify stored responses again with the current verifiers, without model calls.

stored.py      read the stored rollouts line by line, and find the server that verifies each
unverified.py  read responses whose verification failed from a failures file
task_rows.py   fill in missing task fields from the inputs
modes.py       how the verifier of each server gets its session, as the server says
replay.py      recreate a session by replaying the tool calls and turns of the trajectory
verifier.py    verify one row
in_order.py    process many rows at once and write them in input order
verify.py      one re-verification: account for all rows
files.py       the output files, the rows done so far, the origin of the rewards, and the
               rows whose verification never returned, so that the command was ended
changes.py     compare the new rewards with the old ones
"""

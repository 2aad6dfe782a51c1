"""Names of other frameworks over ours, so that environments written against them run unchanged.

`aliases` makes the names importable; `nemo_gym` holds what they lead to; `hosting` puts a server
written against them into a fleet.
"""

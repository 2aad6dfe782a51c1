"""The commands: parse the arguments, call a function, print the result. Two front ends share them.

`palestra …` takes ordinary flags, with overrides after them. `ng_…` takes overrides only, as its
users type them. The commands import heavy modules when they run, so that `--help` is quick.
"""

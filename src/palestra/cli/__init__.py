"""The commands: parse, call, print. Two front ends over the same functions.

`palestra …` takes ordinary flags, with overrides after them; `ng_…` takes overrides only, as
its users type them. Heavy modules are imported inside the commands, so that `--help` is quick.
"""

"""Procedural reasoning tasks of the `reasoning_gym` library: rows on demand, its own scorers."""

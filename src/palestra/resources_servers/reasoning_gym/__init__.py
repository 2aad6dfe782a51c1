"""Procedural reasoning tasks of the `reasoning_gym` library: generated rows, scored by the library."""

"""Knowing what is wrong: checks before a run, and what to make of a run afterwards.

Everything it has to say is a `Finding` (`palestra.doctor.findings`): layer, cause, quoted
evidence, and the next action that mends it.
"""

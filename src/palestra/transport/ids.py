"""Identifiers: random, short, without the cost of a UUID object."""

import os


def new_id(prefix: str = "") -> str:
    """`prefix` and 32 hexadecimal digits.

    From the system, never from `random`: environments seed that one, and two rollouts with the
    same session would share their state.
    """
    return prefix + os.urandom(16).hex()

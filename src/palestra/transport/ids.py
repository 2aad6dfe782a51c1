"""Identifiers: random, short, without the cost of a UUID object."""

import random


def new_id(prefix: str = "") -> str:
    """`prefix` and 32 hexadecimal digits."""
    return f"{prefix}{random.getrandbits(128):032x}"

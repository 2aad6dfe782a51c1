"""Processes and what they share: only of the standard library, so that a guard costs nothing."""

from palestra.system.lookout import (
    GRACE_S,
    LOOK_EVERY_S,
    Lookout,
    ask_for_stacks,
    is_stopped,
    running_one,
)
from palestra.system.parents import become_subreaper, children_of, die_with_parent, outlive_parent
from palestra.system.pulse import (
    STACKS_SIGNAL,
    Driven,
    Executing,
    Pulse,
    beating,
    current_pulse,
    make_current,
    watched_by,
)
from palestra.system.signals import signal_name

__all__ = [
    "GRACE_S",
    "LOOK_EVERY_S",
    "STACKS_SIGNAL",
    "Driven",
    "Executing",
    "Lookout",
    "Pulse",
    "ask_for_stacks",
    "beating",
    "become_subreaper",
    "children_of",
    "current_pulse",
    "die_with_parent",
    "is_stopped",
    "make_current",
    "outlive_parent",
    "running_one",
    "signal_name",
    "watched_by",
]

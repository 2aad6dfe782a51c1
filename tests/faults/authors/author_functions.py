"""One file: a function that does what its row says."""

from author_kinds import KINDS, kinds
from fault_plan import prompt_of

from palestra import environment

COUNT = 80


@environment(
    data=[{"kind": kind, "text": prompt_of(n)} for n, kind in enumerate(kinds(COUNT, 1))],
    prompt="{text}",
)
def verify(kind: str) -> float:
    KINDS[kind]()
    return 1.0

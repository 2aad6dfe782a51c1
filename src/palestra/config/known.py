"""Warn about overrides that nothing reads: most are misspelt."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from palestra.config.directives import COPY, MOVE
from palestra.config.keys import RESERVED_KEYS
from palestra.config.overrides import Override
from palestra.config.spelling import did_you_mean
from palestra.config.tree import leaves

_REFERENCE = re.compile(r"\$\{\s*(?:(?:oc\.[a-z.]+|copy|inherit_from)\s*:\s*)?([^.:,\s${}\[\]]+)")


def unknown_overrides(
    overrides: Iterable[Override],
    *,
    before: Mapping[Any, Any],
    after: Mapping[Any, Any],
    instances: Collection[str],
    known: Collection[str],
) -> tuple[str, ...]:
    """A warning for each top-level key that came from overrides and means nothing.

    `before` is the tree without overrides: what a file has is not unknown. `after` is the
    tree with them, directives not yet carried out. `known` are the command's own settings.
    """
    fine = {str(key) for key in before} | {*instances, *known, *RESERVED_KEYS} | mentioned_in(after)
    unknown = dict.fromkeys(o.steps[0] for o in overrides if o.steps[0] not in fine)
    names = RESERVED_KEYS | set(known) | set(instances)
    return tuple(
        f"override {key!r} is not a setting and nothing refers to it{did_you_mean(key, names)}"
        for key in unknown
    )


def mentioned_in(tree: Any) -> frozenset[str]:
    """The top-level keys with which some interpolation or directive in the tree begins."""
    found: set[str] = set()
    for steps, leaf in leaves(tree):
        if not isinstance(leaf, str):
            continue
        found.update(_REFERENCE.findall(leaf))
        if steps[-1] in (MOVE, COPY):
            found.add(leaf.strip().split(".")[0])
    return frozenset(found)

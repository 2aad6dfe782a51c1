"""Mounts: which folder of the cluster a container sees where.

Written `source:target[:flag,…]`, several separated by commas or as a list. Paths are compared by
component (`/data` is no prefix of `/database`), and the longest match wins.
"""

import os.path
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from palestra.cluster.plan import Mount
from palestra.errors import ConfigError

FLAGS = frozenset({"ro", "rw", "z", "Z", "x-create=dir", "x-create=file", "rslave", "rprivate"})


def parse_mounts(texts: str | Iterable[str]) -> tuple[Mount, ...]:
    """Mounts as written. Raises ConfigError for what is none, and for a target named twice.

    After `source:target`, commas separate flags as long as what follows is one: `/a:/b:ro,z,/c:/d`.
    """
    listed = [texts] if isinstance(texts, str) else list(texts)
    mounts: list[Mount] = []
    for text in listed:
        for part in text.split(","):
            if part in FLAGS and mounts and mounts[-1].flags:
                last = mounts.pop()
                mounts.append(Mount(last.source, last.target, (*last.flags, part)))
            elif part.strip():
                mounts.append(_mount(part.strip()))
    targets = [mount.target for mount in mounts]
    twice = sorted({target for target in targets if targets.count(target) > 1})
    if twice:
        raise ConfigError(f"two mounts have the target {', '.join(twice)}")
    return tuple(mounts)


def _mount(text: str) -> Mount:
    source, _, rest = text.partition(":")
    target, _, flags = rest.partition(":")
    given = tuple(flags.split("+")) if flags else ()
    unknown = sorted(set(given) - FLAGS)
    if not (source.startswith("/") and target.startswith("/")):
        raise ConfigError(
            f"{text!r} is no mount",
            hint="a mount is SOURCE:TARGET or SOURCE:TARGET:ro, with absolute paths",
        )
    if unknown:
        raise ConfigError(
            f"mount {text!r} has unknown flags: {', '.join(unknown)}",
            hint=f"known: {', '.join(sorted(FLAGS))}",
        )
    return Mount(os.path.normpath(source), os.path.normpath(target), given)


def mount_problems(mounts: Iterable[Mount]) -> list[str]:
    """Paths that cannot be written in a mount, whose parts are separated by colons and commas."""
    return [
        f"{path!r} cannot be mounted: a ':' or ',' in it would be read as the end of the path"
        for mount in mounts
        for path in dict.fromkeys((mount.source, mount.target))
        if ":" in path or "," in path
    ]


def merged(base: Sequence[Mount], more: Sequence[Mount]) -> tuple[Mount, ...]:
    """`base` and `more`; of two with one target that of `more` stays."""
    named = {mount.target for mount in more}
    return (*(mount for mount in base if mount.target not in named), *more)


def to_cluster(mounts: Sequence[Mount], path: str) -> str | None:
    """Where a path inside a container lies outside of it; None under no mount."""
    return _moved(path, [(mount.target, mount.source) for mount in mounts])


def to_container(mounts: Sequence[Mount], path: str) -> str | None:
    """Where a container sees a path of the cluster; None when it does not."""
    return _moved(path, [(mount.source, mount.target) for mount in mounts])


def _moved(path: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    plain = PurePosixPath(os.path.normpath(path))
    found = [(old, new) for old, new in pairs if plain.is_relative_to(old)]
    if not found:
        return None
    old, new = max(found, key=lambda pair: len(PurePosixPath(pair[0]).parts))
    return str(PurePosixPath(new) / plain.relative_to(old))


def same_place(path: str) -> Mount:
    """A folder that containers see where it is."""
    return Mount(path, path)

"""Find the paths in the options: on this machine, on the cluster, inside containers.

Without containers a path is used unchanged. With containers, an absolute path is a path inside the
container, under a mount. A path under no mount is mounted at its own path. With
`--check-mounted-paths`, however, everything that is read must be under a mount and exist.

A mount is written `source:target[:flag,…]`; several are separated by commas or given as a list.
Paths are compared by component (`/data` is no prefix of `/database`), and the longest match wins.
"""

import os.path
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from palestra.cluster.plan import Mount
from palestra.config import PACKAGE_ROOT, NamedFile
from palestra.errors import ConfigError
from palestra.system import matching_files

FLAGS = frozenset({"ro", "rw", "z", "Z", "x-create=dir", "x-create=file", "rslave", "rprivate"})


def parse_mounts(texts: str | Iterable[str]) -> tuple[Mount, ...]:
    """Parse mounts. Raises ConfigError: a text is not a mount, or two mounts have the same target.

    After a mount's first flag, each part after a comma that is a flag belongs to the same mount:
    `/a:/b:ro,z,/c:/d`.
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
    source, _, target_and_flags = text.partition(":")
    target, _, flags = target_and_flags.partition(":")
    flag_names = tuple(flags.split("+")) if flags else ()
    unknown = sorted(set(flag_names) - FLAGS)
    if not (source.startswith("/") and target.startswith("/")):
        raise ConfigError(
            f"{text!r} is not a mount",
            hint="a mount is SOURCE:TARGET or SOURCE:TARGET:ro, with absolute paths",
        )
    if unknown:
        raise ConfigError(
            f"mount {text!r} has unknown flags: {', '.join(unknown)}",
            hint=f"known: {', '.join(sorted(FLAGS))}",
        )
    return Mount(os.path.normpath(source), os.path.normpath(target), flag_names)


def mount_problems(mounts: Iterable[Mount]) -> list[str]:
    """Return a message for each path that cannot be mounted: it contains a colon or comma, which
    separate the parts of a mount.
    """
    return [
        f"{path!r} cannot be mounted: a ':' or ',' in it would be read as the end of the path"
        for mount in mounts
        for path in dict.fromkeys((mount.source, mount.target))
        if ":" in path or "," in path
    ]


def merged(base: Sequence[Mount], further: Sequence[Mount]) -> tuple[Mount, ...]:
    """Return the mounts of `base` and `further`. Those of `further` replace mounts with the same
    target.
    """
    further_targets = {mount.target for mount in further}
    return (*(mount for mount in base if mount.target not in further_targets), *further)


def to_cluster(mounts: Sequence[Mount], path: str) -> str | None:
    """Return the path outside the container for a path inside it; None when it is under no mount."""
    return _moved(path, [(mount.target, mount.source) for mount in mounts])


def to_container(mounts: Sequence[Mount], path: str) -> str | None:
    """Return the path inside the container for a path of the cluster; None when it is under no
    mount.
    """
    return _moved(path, [(mount.source, mount.target) for mount in mounts])


def _moved(path: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    plain = PurePosixPath(os.path.normpath(path))
    matching = [(old, new) for old, new in pairs if plain.is_relative_to(old)]
    if not matching:
        return None
    old, new = max(matching, key=lambda pair: len(PurePosixPath(pair[0]).parts))
    return str(PurePosixPath(new) / plain.relative_to(old))


def same_place(path: str) -> Mount:
    """Return a mount of a folder at the same path inside containers."""
    return Mount(path, path)


@dataclass(frozen=True, slots=True)
class Placed:
    """One path. `outside`: on the cluster's file system; `inside`: as components see it.

    `mounts`: the further mounts that it needs. `in_image`: the path exists only inside the
    container.
    """

    outside: Path
    inside: str
    mounts: tuple[Mount, ...] = ()
    in_image: bool = False

    @property
    def here(self) -> bool:
        """Whether the path, or a file that the glob matches, exists on this machine."""
        source_file = NamedFile.parse(str(self.outside))
        path = source_file.path if source_file else self.outside
        return not self.in_image and bool(matching_files(path))


@dataclass(frozen=True, slots=True)
class PathReader:
    """Resolves paths in the options. `packaged`: whether the code of the working directory is
    packaged.
    """

    mounts: tuple[Mount, ...]
    containers: bool
    strict: bool
    packaged: bool
    cwd: Path
    gym_path: str | None = None
    """A checkout inside the jobs' container. Relative paths that this machine lacks are looked for
    in it."""

    def check_mounts(self) -> None:
        """With `strict`, raise ConfigError when the source of a mount does not exist on this
        machine.
        """
        gone = [mount.source for mount in self.mounts if not Path(mount.source).exists()]
        if self.strict and gone:
            raise ConfigError(
                f"the sources of these mounts do not exist on this machine: {', '.join(gone)}"
            )

    def folder(self, text: str, option: str) -> Placed:
        """Resolve a folder for output. It has the same path outside and inside containers.

        It needs no mount from the user, even with `strict`: it is always mounted automatically.
        """
        placed = replace(self, strict=False).path(text, option, must_exist=False)
        return Placed(placed.outside, str(placed.outside), (same_place(str(placed.outside)),))

    def path(self, text: str, option: str, *, must_exist: bool = True) -> Placed:
        """Resolve a path in the options. Raises ConfigError: the path is under no mount or does not
        exist.
        """
        absolute = Path(text).is_absolute()
        if self.containers and absolute and (outside := to_cluster(self.mounts, text)):
            placed = Placed(Path(outside), text)
        elif self.containers and absolute and self.strict:
            raise ConfigError(
                f"{option} {text} is under no mount",
                hint=f"mounts: {', '.join(m.target for m in self.mounts) or 'none'}",
            )
        else:
            placed = self._as_it_is(Path(os.path.normpath(self.cwd / text)))
        unreachable = self.containers and absolute and not self.strict
        if must_exist and not placed.here and not unreachable:
            raise ConfigError(f"{option} {text}: {placed.outside} does not exist")
        return placed

    def _as_it_is(self, path: Path) -> Placed:
        if not self.containers:
            return Placed(path, str(path))
        if inside := to_container(self.mounts, str(path)):
            return Placed(path, inside)
        folder = path if path.is_dir() else path.parent
        return Placed(path, str(path), (same_place(str(folder)),))

    def input(self, text: str) -> Placed:
        """Resolve the input file or a glob: in the working directory, the installed package, or the
        checkout.
        """
        if Path(text).is_absolute() or matching_files(self.cwd / text):
            return self.path(text, "--input-file")
        if (PACKAGE_ROOT / text).exists():
            return Placed(PACKAGE_ROOT / text, text)
        return self._in_checkout(text, "--input-file")

    def config(self, text: str) -> Placed:
        """Resolve a config file. One that the package ships keeps its relative name, because the
        job's package contains it too.

        An environment in one file may name its class: `shelf.py:Shelf`.
        """
        source_file = NamedFile.parse(text)
        if source_file is not None and source_file.class_name:
            placed = self.config(source_file.path)
            outside = Path(f"{placed.outside}:{source_file.class_name}")
            return replace(
                placed, outside=outside, inside=f"{placed.inside}:{source_file.class_name}"
            )
        if Path(text).is_absolute():
            return self.path(text, "--config-paths")
        if (self.cwd / text).exists():
            placed = self.path(text, "--config-paths")
            return Placed(placed.outside, text) if self.packaged else placed
        if (PACKAGE_ROOT / text).exists():
            return Placed(PACKAGE_ROOT / text, text)
        return self._in_checkout(text, "--config-paths")

    def _in_checkout(self, text: str, option: str) -> Placed:
        """Resolve a path below `--gym-path`. Raises ConfigError: there is no such checkout for
        containers.
        """
        checkout = self.gym_path
        if not self.containers or checkout is None or not Path(checkout).is_absolute():
            raise ConfigError(
                f"{option} {text} does not exist",
                hint=f"looked for in {self.cwd} and in the installed package",
            )
        path = os.path.normpath(Path(checkout) / text)
        if self.strict or to_cluster(self.mounts, path):
            return self.path(path, option)
        return Placed(Path(path), path, in_image=True)


def mounts_of(placed: Sequence[Placed]) -> tuple[Mount, ...]:
    """Return the mounts that all these paths need, each once."""
    return tuple(dict.fromkeys(mount for placed_path in placed for mount in placed_path.mounts))

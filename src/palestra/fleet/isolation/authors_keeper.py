"""Fork workers that have already imported an author's file, or report where the import stands."""

from pathlib import Path
from typing import Any, Final, Protocol, final

from palestra.fleet.importing import AuthorImport, standing_at, workers_limit_s
from palestra.fleet.isolation.failures import MEMORY_MIB
from palestra.fleet.own_code import search_path
from palestra.fleet.stacks import place_on
from palestra.sandbox import Keeper, NotReady, WorkerHandle, WorkersBroken
from palestra.transport import CallContext

SHARE_KEPT: Final = 0.2
MOST_KEPT_S: Final = 1.0
"""The maximum number of seconds of a call's remaining time that is reserved for finding where its
code stands, and for answering the caller."""


def limit_of(context: CallContext) -> float | None:
    """Return the seconds that a call made now may take; None when it has no deadline."""
    limits = [s for s in (context.remaining_s(), context.call_limit_s) if s is not None]
    if not limits:
        return None
    return min(limits) - min(MOST_KEPT_S, min(limits) * SHARE_KEPT)


class Forking(Protocol):
    """The interface of an object that forks worker processes, such as `AuthorsKeeper`."""

    async def fork(self) -> WorkerHandle:
        """Return a new worker that is ready for calls. Raises WorkersBroken."""

    def end(self) -> None:
        """End every worker."""


@final
class AuthorsKeeper:
    """A `Keeper` whose workers import the file at `path`. `sources`: as in `Keeper`."""

    def __init__(self, path: Path, *, sources: Path | None, program: str, argument: Any) -> None:
        self._import = AuthorImport.of(path)
        self._limit_s = workers_limit_s()
        self._keeper = Keeper(
            program=program,
            argument=argument,
            memory_mib=MEMORY_MIB,
            as_here=True,
            start_limit_s=self._limit_s,
            sources=sources,
            path=search_path([path]),
        )

    async def fork(self) -> WorkerHandle:
        """Return a new worker that is ready for calls. Raises WorkersBroken."""
        try:
            return await self._keeper.fork()
        except NotReady as error:
            raise WorkersBroken(
                f"a worker process of {self._import.file} was not ready within "
                f"{self._limit_s:.3g} s (its server has {self._import.limit_s:g} s to "
                f"start){standing_at(place_on(error.stacks))}",
                hint="find out why the import of this file does not return, or set a longer "
                f"limit: {self._import.longer}",
            ) from None

    def end(self) -> None:
        """End every worker; see `Keeper.end`."""
        self._keeper.end()

"""Builds one generation of an index: reads the files of a run from where the last commit ended."""

import copy
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from palestra.analysis import RowBlock, RowReader, why_no_row, without_garbage
from palestra.schema import MAX_ROW_BYTES
from palestra.viewer.index.commits import MOST_PROBLEMS, BadLine, Commit
from palestra.viewer.index.extraction import Extraction
from palestra.viewer.index.lines import LineBlock, line_blocks
from palestra.viewer.index.outcome_lines import is_failed, is_outcome, row_of_outcome
from palestra.viewer.index.packed import PieceReader, ReadFailed
from palestra.viewer.index.places import RunPart
from palestra.viewer.index.responses import IndexedObject
from palestra.viewer.index.sources import IndexedFile, Watched, run_sources
from palestra.viewer.index.storage import StoredColumns


class Builder:
    """Appends to the columns of one generation. `commit`: the state to go on from."""

    def __init__(
        self,
        outputs: Sequence[Path],
        columns: StoredColumns,
        commit: Commit,
        *,
        family: Sequence[str],
    ) -> None:
        self._outputs, self._columns = outputs, columns
        self._commit = copy.deepcopy(commit)
        self._watched = Watched()
        self._readers = {part: RowReader(family, nested=IndexedObject) for part in RunPart}
        self._extraction = Extraction(
            columns, self._commit.fields, family=family, rows=self._commit.rows("results")
        )
        self._packed: dict[str, tuple[PieceReader, Iterator[LineBlock]]] = {}
        self.has_more = True
        """Whether the last `read` left lines; what follows the last line break waits for its rest."""

    def why_invalid(self) -> str:
        """Return why the columns do not describe the files any more; empty when they do."""
        present = {source.number: source for source in run_sources(self._outputs)}
        indexed_sources = {source.number: source for source in self._commit.sources}
        if not present and indexed_sources:
            return ""  # the run was removed: what is indexed stays
        has_results = any(s.part is RunPart.RESULT and s.offset for s in indexed_sources.values())
        for number, source in present.items():
            if number not in indexed_sources:
                if source.part is RunPart.INPUT and has_results:
                    return f"{source.path} appeared"
            elif source.path != indexed_sources[number].path:
                return f"{source.path} replaces {indexed_sources[number].path}"
        for source in self._commit.sources:
            indexed_bytes = source.offset or source.is_finished
            if (
                indexed_bytes
                and not self._is_open(source)
                and (reason := self._watched.why_invalid(source))
            ):
                return reason
        return ""

    def read(self, deadline: float) -> bool:
        """Read the files until `deadline`, on the monotonic clock. Return whether any line was
        added. Raises OSError or StorageFull: the columns cannot be written.
        """
        with without_garbage():
            return self._read_until(deadline)

    def _read_until(self, deadline: float) -> bool:
        is_changed = self._look_for_files()
        for source in self._commit.sources:
            for block in self._blocks(source):
                self._take(source, block)
                is_changed = True
                if self._extraction.is_large:
                    self._extraction.flush()
                if time.monotonic() >= deadline:
                    self.has_more = True
                    return True
        self.has_more = False
        return is_changed

    def commit(self) -> Commit:
        """Flush the columns and return the new state. Raises OSError or StorageFull."""
        self._extraction.flush()
        for source in self._commit.sources:
            if source.offset or source.is_finished:
                source.seal()
        self._commit.problems.sort()
        self._commit.version += 1
        self._commit.columns = self._columns.states
        return copy.deepcopy(self._commit)

    def close(self) -> None:
        """Close the files."""
        for reader, _ in self._packed.values():
            reader.close()
        self._packed.clear()

    def _is_open(self, source: IndexedFile) -> bool:
        return source.path in self._packed

    def _look_for_files(self) -> bool:
        """Take up the files that there are now. Return whether they are others than before."""
        paths_before = {source.path for source in self._commit.sources}
        # a file of which nothing was read may go: a run without failures removes its empty file
        sources = {source.number: source for source in run_sources(self._outputs)}
        for source in self._commit.sources:
            if source.offset or source.is_finished or self._is_open(source):
                sources[source.number] = source
        order = (RunPart.INPUT, RunPart.FAILURE, RunPart.RESULT)
        by_part = sorted(sources.values(), key=lambda s: (order.index(s.part), s.number))
        self._commit.sources = by_part
        return {source.path for source in by_part} != paths_before

    def _blocks(self, source: IndexedFile) -> Iterator[LineBlock]:
        """Yield the blocks of a file that are not indexed yet."""
        try:
            if source.packed:
                yield from self._packed_blocks(source)
                return
            with Path(source.path).open("rb", buffering=0) as file:
                if source.is_file(file.fileno()):
                    file.seek(source.offset)
                    yield from line_blocks(file, offset=source.offset, first_line=source.line)
        except (ReadFailed, FileNotFoundError) as error:
            if source.path in self._packed:
                self._finish_packed(source)
            self._note(source, source.line, f"the file cannot be read from here on: {error}")

    def _packed_blocks(self, source: IndexedFile) -> Iterator[LineBlock]:
        if source.is_finished:
            return
        if source.path not in self._packed:
            source.packed_size = Path(source.path).stat().st_size
            name = f"copy{source.number}"
            most_copied = self._columns.room_for_copies
            reader = PieceReader(Path(source.path), self._columns, name, most_copied=most_copied)
            blocks = line_blocks(reader, offset=0, first_line=1)
            self._packed[source.path] = reader, blocks
        reader, blocks = self._packed[source.path]
        while (block := next(blocks, None)) is not None:
            yield block
        self._finish_packed(source)

    def _finish_packed(self, source: IndexedFile) -> None:
        reader, _ = self._packed.pop(source.path)
        reader.close()
        source.is_finished, source.has_copy = True, reader.copies

    def _take(self, source: IndexedFile, block: LineBlock) -> None:
        if block.too_long:
            limit = f"{block.too_long:,} bytes; the limit of a row is {MAX_ROW_BYTES:,}"
            self._note(source, block.first_line, limit)
        else:
            if source.part is RunPart.RESULT and source.line == 1:
                source.is_outcomes = any(map(is_outcome, block.texts[:1]))
            if source.is_outcomes:
                self._take_outcomes(source, block)
            else:
                lines = range(block.first_line, block.first_line + block.lines)
                self._add(source, self._decoded(source, block.texts, lines, block.offsets))
        source.offset, source.line = block.end, block.first_line + block.lines

    def _decoded(
        self,
        source: IndexedFile,
        texts: Sequence[bytes],
        lines: Sequence[int],
        offsets: Sequence[int],
    ) -> RowBlock:
        return self._readers[source.part].decode(
            Path(source.path),
            texts,
            lines,
            offsets,
            lambda line, text: self._note(source, line, _reason(text)),
        )

    def _take_outcomes(self, source: IndexedFile, block: LineBlock) -> None:
        """Add the rows of lines that are outcomes of training: results and failed attempts."""
        lengths = dict(zip(block.offsets, map(len, block.texts), strict=True))
        failed = [is_failed(text) for text in block.texts]
        for is_failure in (False, True):
            at = [position for position, flag in enumerate(failed) if flag is is_failure]
            if not at:
                continue
            rows = self._decoded(
                source,
                [row_of_outcome(block.texts[position]) for position in at],
                [block.first_line + position for position in at],
                [block.offsets[position] for position in at],
            )
            line_lengths = [lengths[offset] for offset in rows.offsets]
            if len(rows) and is_failure:
                self._extraction.failures(rows, source.number, lengths=line_lengths)
            elif len(rows):
                self._extraction.results(
                    rows, source.number, with_prompts=True, lengths=line_lengths
                )

    def _add(self, source: IndexedFile, rows: RowBlock) -> None:
        if not len(rows):
            return
        match source.part:
            case RunPart.INPUT:
                self._extraction.inputs(rows, source.number)
            case RunPart.FAILURE:
                self._extraction.failures(rows, source.number)
            case RunPart.RESULT:
                has_inputs = any(s.part is RunPart.INPUT for s in self._commit.sources)
                self._extraction.results(rows, source.number, with_prompts=not has_inputs)

    def _note(self, source: IndexedFile, line: int, reason: str) -> None:
        problem = BadLine(source.number, line, reason)
        if problem in self._commit.problems:
            return
        self._commit.problem_count += 1
        if len(self._commit.problems) < MOST_PROBLEMS:
            self._commit.problems.append(problem)


def _reason(text: bytes) -> str:
    is_utf8, reason = why_no_row(text)
    return reason if is_utf8 else f"not UTF-8: {reason}"

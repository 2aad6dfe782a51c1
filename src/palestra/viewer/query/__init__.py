"""Searches the transcripts of a run: what `text:` looks for. `Table.select` answers all else."""

from palestra.viewer.query.transcripts import TextHit, search_text

__all__ = ["TextHit", "search_text"]

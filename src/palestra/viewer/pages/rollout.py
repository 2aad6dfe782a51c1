"""One rollout: its head, the outline of its conversation, texts in ranges, images, search."""

import base64
import binascii
from typing import Any, Final, Literal

import numpy as np

from palestra.analysis import parse_query
from palestra.errors import InputDataError
from palestra.viewer.catalog import NoSuchRun, OpenRun
from palestra.viewer.conversation import ConversationItem, Transcript, utf16
from palestra.viewer.index import IndexedPlace, IndexSnapshot, RunPart, SplitItem, texts_of
from palestra.viewer.pages.evidence import marks_by_item
from palestra.viewer.pages.tables import key_of_row, marks_of
from palestra.viewer.replies.base import Cell
from palestra.viewer.replies.rollout import (
    HEAD_CHARACTERS,
    OUTLINE_ITEMS,
    RANGE_BYTES,
    ImagePart,
    ItemText,
    Mark,
    OutlineItem,
    OutlinePage,
    RolloutPage,
    TranscriptHit,
    TranscriptHits,
)
from palestra.viewer.requests import PageRequest, find_row

MOST_IMAGE_BYTES: Final = 20 << 20
MOST_HITS: Final = 1_000
EXCERPT_CHARACTERS: Final = 80
ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
_MAGIC: Final[tuple[tuple[bytes, ImageType], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_FIELDS: Final = ("task", "rollout", "outcome", "reward", "agent", "truncated")


def opened(request: PageRequest) -> tuple[OpenRun, IndexSnapshot, int]:
    """Return the run, its snapshot, and the row number of the rollout. Raises NoSuchRun."""
    run = request.run
    snapshot = run.snapshot
    return run, snapshot, find_row(snapshot, request)


def main_place(snapshot: IndexSnapshot, row: int) -> IndexedPlace:
    """Return the place of the row that stands for a rollout: its result, else its last failure,
    else its input. Raises NoSuchRun: no file has one.
    """
    for part in (RunPart.RESULT, RunPart.FAILURE, RunPart.INPUT):
        row_place = snapshot.place(row, part)
        if row_place is not None:
            return row_place
    raise NoSuchRun("no file holds a row of this rollout")


def rollout(request: PageRequest) -> RolloutPage:
    """Answer the head of a rollout."""
    run, snapshot, row = opened(request)
    return head_of(run, snapshot, row, *_neighbours(snapshot, row, request))


def head_of(
    run: OpenRun,
    snapshot: IndexSnapshot,
    row: int,
    previous: list[Cell] | None = None,
    following: list[Cell] | None = None,
) -> RolloutPage:
    """Return the head of a rollout. `previous`, `following`: the keys of its neighbours."""
    table = snapshot.rollouts
    names = [name for name in _FIELDS if name in table.fields]
    values = table.page(np.array([row]), count=1, fields=names).rows[0]
    talk = run.conversations.of(snapshot, row)
    row_place = main_place(snapshot, row)
    items = talk.items
    prompt_items = sum(item.section == "prompt" for item in items)
    outcome = str(values.get("outcome") or "")
    index = values.get("rollout")
    return RolloutPage(
        row=row,
        task=values.get("task"),
        rollout=None if index is None else int(index),
        outcome=outcome,
        reward=values.get("reward"),
        agent=str(values.get("agent") or ""),
        model=talk.model,
        prompt_items=prompt_items,
        output_items=len(items) - prompt_items,
        source=talk.source,
        truncated=bool(values.get("truncated")),
        bytes=row_place.length,
        file=str(row_place.path),
        line=row_place.line,
        attempts=len(snapshot.attempts(row)),
        has_tokens=any(item.has_tokens for item in items),
        marks=marks_of(snapshot, row),
        previous=previous,
        next=following,
    )


def _neighbours(
    snapshot: IndexSnapshot, row: int, request: PageRequest
) -> tuple[list[Cell] | None, list[Cell] | None]:
    """Return the keys of the rollouts before and after a row in the table that it was opened from."""
    table = snapshot.rollouts
    query = parse_query(request.text("q"))
    if query.texts:  # the table shows hits, which only reading all rows would find again
        return None, None
    rows = table.select(query)
    if request.text("sort"):
        rows = table.sort(rows, request.text("sort"))
    [positions] = np.nonzero(rows == row)
    if not len(positions):
        return None, None
    at = int(positions[0])

    def key(position: int) -> list[Cell] | None:
        if not 0 <= position < len(rows):
            return None
        task, index = key_of_row(snapshot, int(rows[position]))
        return [task, index]

    return key(at - 1), key(at + 1)


def outline(request: PageRequest) -> OutlinePage:
    """Answer a page of the items of the conversation."""
    run, snapshot, row = opened(request)
    talk = run.conversations.of(snapshot, row)
    start = request.integer("start")
    chosen = talk.items[start : start + OUTLINE_ITEMS]
    request.stop.check()
    marks = marks_by_item(talk)
    return OutlinePage(
        items=[
            outline_item(talk, item, detail, marks.get(item.position, []))
            for item, detail in zip(chosen, talk.details(chosen), strict=True)
        ],
        start=start,
        total=len(talk.items),
    )


def outline_item(
    talk: Transcript, item: ConversationItem, detail: SplitItem, marks: list[Mark]
) -> OutlineItem:
    """Return one item as the outline shows it."""
    pair = talk.pairs.get(item.position)
    texts = [part for part in detail.texts if part.kind != "image"]
    return OutlineItem(
        at=item.position,
        part="prompt" if item.section == "prompt" else "output",
        kind=item.kind,
        name=item.name or (item.type if item.kind == "other" else ""),
        call_id=item.call_id,
        pair=pair,
        unpaired=item.kind in {"call", "result"} and pair is None,
        size=sum(part.size for part in texts),
        head="".join(part.head for part in texts)[:HEAD_CHARACTERS],
        images=sum(part.kind == "image" for part in detail.texts),
        turn=talk.turns.get(item.position),
        json=any(part.kind == "json" for part in texts),
        found=marks,
    )


def item(request: PageRequest) -> ItemText:
    """Answer a range of the text of an item."""
    run, snapshot, row = opened(request)
    talk = run.conversations.of(snapshot, row)
    chosen = talk.at(request.integer("at"))
    start = request.integer("start")
    parts = texts_of(*talk.raws([chosen]))
    sizes = [0 if part.kind == "image" else len(part.body) for part in parts]
    text, end, before = "", sum(sizes), 0
    for part, size in zip(parts, sizes, strict=True):
        if before <= start < before + size:
            piece = part.range(start - before, RANGE_BYTES)
            text, end = piece.text, before + (size if piece.next is None else piece.next)
            break
        before += size
    has_images = start == 0 and any(part.kind == "image" for part in parts)
    return ItemText(
        at=chosen.position,
        start=start,
        end=end,
        size=sum(sizes),
        text=text,
        images=_images(talk, chosen) if has_images else [],
    )


def _images(talk: Transcript, chosen: ConversationItem) -> list[ImagePart]:
    return [_image_part(number, part) for number, part in _image_parts(talk.read(chosen))]


def _image_parts(value: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the parts of an item that are images, with their positions."""
    content = value.get("content") or value.get("output") if isinstance(value, dict) else None
    parts = content if isinstance(content, list) else []
    return [
        (number, part)
        for number, part in enumerate(parts)
        if isinstance(part, dict) and "image" in str(part.get("type"))
    ]


def _image_part(number: int, part: dict[str, Any]) -> ImagePart:
    address = _address_of(part)
    try:
        kind, data = _raster(address)
    except InputDataError as error:
        text = f"{error.message}: {address[:200]}"
        return ImagePart(part=number, type="", bytes=0, text=text)
    return ImagePart(part=number, type=kind, bytes=len(data), text="")


def _address_of(part: dict[str, Any]) -> str:
    value = part.get("image_url")
    if isinstance(value, dict):
        value = value.get("url")
    return value if isinstance(value, str) else ""


def _raster(address: str) -> tuple[ImageType, bytes]:
    """Return the type and the bytes of an image in a `data:` address.

    Raises InputDataError: it is elsewhere, too large, or not PNG, JPEG, GIF or WebP.
    """
    if not address.startswith("data:"):
        raise InputDataError("an image that is elsewhere, and is not fetched")
    head, comma, body = address.partition(",")
    if not comma or not head.endswith(";base64"):
        raise InputDataError("an image that is not base64")
    if len(body) > MOST_IMAGE_BYTES * 4 // 3 + 4:
        raise InputDataError(f"an image of more than {MOST_IMAGE_BYTES >> 20} MB")
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise InputDataError("an image that is not base64") from None
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind, data
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp", data
    raise InputDataError("not an image of PNG, JPEG, GIF or WebP")


def image(request: PageRequest) -> tuple[str, bytes]:
    """Answer an image: its media type and bytes."""
    run, snapshot, row = opened(request)
    talk = run.conversations.of(snapshot, row)
    chosen = talk.at(request.integer("at"))
    parts = dict(_image_parts(talk.read(chosen)))
    part = parts.get(request.integer("part"))
    if part is None:
        raise NoSuchRun(f"item {chosen.position} has no such image")
    return _raster(_address_of(part))


def find(request: PageRequest) -> TranscriptHits:
    """Answer the places of the conversation that hold a text, without case."""
    run, snapshot, row = opened(request)
    talk = run.conversations.of(snapshot, row)
    word = request.text("text").lower()
    hits: list[TranscriptHit] = []
    for holder, text in talk.texts(talk.items) if word else ():
        request.stop.check()
        folded = text.lower()
        if len(folded) != len(text):  # some letters have two lower-case ones
            folded = text
        at = folded.find(word)
        while at >= 0:
            if len(hits) == MOST_HITS:
                return TranscriptHits(hits=hits, more=True)
            hits.append(_hit(holder.position, text, at, len(word)))
            at = folded.find(word, at + len(word))
    return TranscriptHits(hits=hits, more=False)


def _hit(position: int, text: str, at: int, length: int) -> TranscriptHit:
    start = utf16(text[:at])
    return TranscriptHit(
        at=position,
        start=start,
        end=start + utf16(text[at : at + length]),
        excerpt=text[max(0, at - EXCERPT_CHARACTERS) : at + length + EXCERPT_CHARACTERS],
    )

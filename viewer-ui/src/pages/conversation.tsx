// The conversation of a rollout: a window over its outline, with texts that are read in ranges.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { askBlob, askReply, ReplyError, request } from "../api";
import { bytes, count } from "../format";
import { useKeys, useLate, useReply } from "../hooks";
import { Markdown } from "../markdown";
import { Coloured, ErrorBox } from "../parts/common";
import { useGoal, useWindow } from "../parts/virtual";
import type { ImagePart, ItemText, Mark, OutlineItem, TranscriptHit } from "../replies";
import { setParameters } from "../router";
import { visible } from "../text";

/** How an endpoint names the rollout. */
export interface Spot {
  places: Readonly<Record<string, string>>;
  row: string | null;
}

const OUTLINE = 500;
const SHOWN_CHARACTERS = 4_000;
/** How much is shown after a place that was searched for. */
const AFTER_HIT = 2_000;
/** So much of a text is read to reach a place in it; farther ones show their excerpt. */
const MOST_BYTES_TO_HIT = 4_000_000;
/** A text with fewer characters than an outline shows is whole. */
const HEAD_CHARACTERS = 200;

interface PieceMark {
  start: number;
  end: number;
  name: string;
}

/** What was read of an item's text, and how much of it is shown. It outlives the item's element. */
interface Loaded {
  text: ItemText | null;
  shown: number;
  opened: boolean;
}

class Texts {
  private readonly items = new Map<number, Loaded>();

  of(item: OutlineItem): Loaded {
    let loaded = this.items.get(item.at);
    if (!loaded) {
      loaded = { text: null, shown: SHOWN_CHARACTERS, opened: item.kind !== "reasoning" };
      this.items.set(item.at, loaded);
    }
    return loaded;
  }
}

interface ConversationProps {
  spot: Spot;
  target: number | null;
  markdown: boolean;
  hits: readonly TranscriptHit[];
  hit: TranscriptHit | null;
}

export const Conversation = ({ spot, target, markdown, hits, hit }: ConversationProps) => {
  const first = useReply(request("outline", spot.places, { row: spot.row, start: 0 }));
  const late = useLate(first.loading);
  const [pages, setPages] = useState<ReadonlyMap<number, readonly OutlineItem[]>>(new Map());
  const [error, setError] = useState<ReplyError | null>(null);
  const asked = useRef(new Set<number>());
  const texts = useMemo(() => new Texts(), [spot]);
  const list = useRef<HTMLOListElement>(null);
  const [margin, setMargin] = useState(0);
  const total = first.data?.total ?? 0;
  const itemAt = (at: number): OutlineItem | null =>
    (at < OUTLINE ? first.data?.items[at] : pages.get(Math.floor(at / OUTLINE))?.[at % OUTLINE]) ?? null;
  const estimate = useCallback((at: number) => estimated(itemAt(at)), [first.data, pages]);
  const view = useWindow(total, margin, estimate);
  useLayoutEffect(() => {
    const top = (list.current?.getBoundingClientRect().top ?? 0) + scrollY;
    if (Math.abs(top - margin) > 1) setMargin(top);
  });
  const shown = view.getVirtualItems();
  const needed = [...new Set(shown.map((item) => Math.floor(item.index / OUTLINE)))].filter((page) => page > 0);
  useEffect(() => {
    for (const page of needed) {
      if (asked.current.has(page)) continue;
      asked.current.add(page);
      askReply(request("outline", spot.places, { row: spot.row, start: page * OUTLINE }))
        .then(({ data }) => setPages((before) => new Map(before).set(page, data.items)))
        .catch((cause: unknown) => setError(cause instanceof ReplyError ? cause : new ReplyError(0, { message: String(cause) })));
    }
  }, [needed.join(","), spot]);
  const open = useGoal(view, list);
  useEffect(() => {
    if (total && target !== null) open(Math.min(target, total - 1));
  }, [total > 0, target]);
  const move = (step: number) => {
    const focused = document.activeElement?.closest("[data-index]")?.getAttribute("data-index");
    const at = focused === null || focused === undefined ? (step > 0 ? (shown.find((item) => item.end > scrollY + 60)?.index ?? 0) - 1 : 0) : Number(focused);
    const next = Math.min(total - 1, Math.max(0, at + step));
    setParameters({ item: String(next) });
    open(next);
  };
  useKeys({ j: () => move(1), k: () => move(-1) });
  return (
    <>
      {(first.error ?? error) && <ErrorBox error={(first.error ?? error) as ReplyError} />}
      {late && !first.data && !first.error && <p class="quiet waiting">Reading the transcript…</p>}
      {first.data && total === 0 && <p class="quiet">This row holds no conversation.</p>}
      {shown.length < total && (
        <p class="print-only">
          Items {(shown[0]?.index ?? 0) + 1} to {(shown[shown.length - 1]?.index ?? 0) + 1} of {count(total)}: those near the screen. The download of the row has all.
        </p>
      )}
      <ol class="conversation" aria-busy={first.loading} ref={list} style={{ height: `${view.getTotalSize()}px` }} aria-label={`Conversation of ${count(total)} items`}>
        {shown.map((place) => {
          const item = itemAt(place.index);
          return (
            <li
              key={place.index}
              data-index={place.index}
              ref={(element) => view.measureElement(element)}
              tabIndex={-1}
              aria-setsize={total}
              aria-posinset={place.index + 1}
              style={{ transform: `translateY(${place.start - margin}px)` }}
              class={item ? `entry ${kindClass(item.kind)}` : "entry"}
            >
              {item ? (
                <Item
                  item={item}
                  loaded={texts.of(item)}
                  spot={spot}
                  markdown={markdown}
                  hits={hits}
                  hit={hit?.at === item.at ? hit : null}
                  isFirstOutput={item.part === "output" && itemAt(item.at - 1)?.part !== "output"}
                  open={open}
                />
              ) : (
                <p class="quiet">…</p>
              )}
            </li>
          );
        })}
      </ol>
    </>
  );
};

const KINDS = new Set(["user", "assistant", "system", "developer", "tool", "reasoning", "call", "result"]);
const kindClass = (kind: string): string => (KINDS.has(kind) ? kind : "other");

const estimated = (item: OutlineItem | null): number => {
  if (!item) return 80;
  const lines = Math.min(SHOWN_CHARACTERS, item.size) / 90;
  return item.kind === "reasoning" ? 48 : 52 + 22 * Math.ceil(lines);
};

interface ItemProps {
  item: OutlineItem;
  loaded: Loaded;
  spot: Spot;
  markdown: boolean;
  hits: readonly TranscriptHit[];
  hit: TranscriptHit | null;
  isFirstOutput: boolean;
  open: (at: number) => void;
}

const TITLES: Readonly<Record<string, string>> = { call: "calls", result: "result", reasoning: "reasoning", other: "item" };

const Item = ({ item, loaded, spot, markdown, hits, hit, isFirstOutput, open }: ItemProps) => {
  const [, redraw] = useState(0);
  const [error, setError] = useState<ReplyError | null>(null);
  const changed = () => redraw((turn) => turn + 1);
  const isWhole = useMemo(() => [...item.head].length < HEAD_CHARACTERS, [item]);
  const load = (start: number, signal?: AbortSignal) =>
    askReply(request("item", spot.places, { row: spot.row, at: item.at, start }), signal)
      .then(({ data: reply }) => {
        const before = loaded.text;
        const follows = before && before.end === reply.start;
        loaded.text = follows ? { ...before, end: reply.end, text: before.text + reply.text } : reply;
        changed();
      })
      .catch((cause: unknown) => {
        if (!signal?.aborted) setError(cause instanceof ReplyError ? cause : new ReplyError(0, { message: String(cause) }));
      });
  const text = loaded.text?.text ?? item.head;
  const needsText = loaded.opened && (!isWhole || item.images > 0) && !loaded.text;
  const reached = loaded.text?.end ?? 0;
  const isBefore = hit !== null && loaded.text !== null && hit.end > text.length && reached < Math.min(loaded.text.size, MOST_BYTES_TO_HIT);
  useEffect(() => {
    if (!needsText && !isBefore) return undefined;
    const stop = new AbortController();
    void load(needsText ? 0 : reached, stop.signal);
    return () => stop.abort();
  }, [needsText, isBefore, reached]);
  const marks = [...item.found.map(markOf), ...hits.filter((other) => other.at === item.at).map((other) => ({ ...other, name: "hit" }))];
  const limit = hit ? Math.max(loaded.shown, hit.end + AFTER_HIT) : loaded.shown;
  const body = (
    <>
      {error && <ErrorBox error={error} />}
      {hit && hit.end > text.length && loaded.text && !isBefore && (
        <p class="theirs far" dir="auto">
          … {visible(hit.excerpt)} …
        </p>
      )}
      {item.size > 0 &&
        (markdown && (item.kind === "assistant" || item.kind === "user") && !hit ? (
          <Markdown text={text.slice(0, limit)} />
        ) : (
          <Body text={text.slice(0, limit)} marks={marks} label={`${item.kind} ${item.at}`} />
        ))}
      <More loaded={loaded} text={text} limit={limit} load={load} changed={changed} />
      {loaded.text?.images.map((image) => <Image key={image.part} image={image} item={item} spot={spot} />)}
    </>
  );
  const reasons = [...new Set(item.found.map((mark) => `${mark.kind}: ${mark.field}`))];
  return (
    <article aria-label={`${item.kind} ${item.name}`}>
      {isFirstOutput && <p class="boundary">output of the model and its tools</p>}
      <h4>
        <span class="kind">{TITLES[item.kind] ?? visible(item.kind)}</span>
        {item.name && (
          <code>
            <bdi dir="auto">{visible(item.name)}</bdi>
          </code>
        )}
        {item.pair !== null && (
          <button type="button" class="bare" onClick={() => open(item.pair ?? 0)}>
            {item.kind === "call" ? "its result" : "its call"} (item {item.pair})
          </button>
        )}
        {item.unpaired && <span class="problem">{item.kind === "call" ? "no result in this row" : "no call in this row"}</span>}
        {item.size > SHOWN_CHARACTERS && <span>{bytes(item.size)}</span>}
        {reasons.map((reason) => (
          <span key={reason} class={reason.startsWith("earned") ? "earned" : "found"}>
            {visible(reason)}
          </span>
        ))}
        <a class="at" href={placeOfItem(item.at)} aria-label={`Link to item ${item.at}`}>
          {item.at}
        </a>
      </h4>
      {item.kind === "reasoning" ? (
        <details
          open={loaded.opened || hit !== null}
          onToggle={(event) => {
            loaded.opened = event.currentTarget.open;
            changed();
          }}
        >
          <summary>{loaded.opened ? "Fold" : `Read ${bytes(item.size)}`}</summary>
          {loaded.opened && body}
        </details>
      ) : (
        body
      )}
    </article>
  );
};

const placeOfItem = (at: number): string => {
  const search = new URLSearchParams(location.search);
  search.set("item", String(at));
  return `${location.pathname}?${search}`;
};

const markOf = (mark: Mark): PieceMark => ({ start: mark.start, end: mark.end, name: mark.kind === "earned by" ? "earned" : "found" });

interface MoreProps {
  loaded: Loaded;
  text: string;
  limit: number;
  load: (start: number) => Promise<void>;
  changed: () => void;
}

const More = ({ loaded, text, limit, load, changed }: MoreProps) => {
  const left = loaded.text ? loaded.text.size - loaded.text.end : 0;
  if (text.length > limit) {
    return (
      <button
        type="button"
        class="cut"
        onClick={() => {
          loaded.shown = text.length;
          changed();
        }}
      >
        {count(text.length - limit)} more characters{left > 0 ? `, and then ${bytes(left)}` : ""}: show them
      </button>
    );
  }
  if (left <= 0) return null;
  return (
    <button
      type="button"
      class="cut"
      onClick={() => {
        loaded.shown = Number.MAX_SAFE_INTEGER;
        void load(loaded.text?.end ?? 0);
      }}
    >
      {bytes(left)} more: show the next part
    </button>
  );
};

/** A text with its marked pieces, and colours of terminals as classes. */
const Body = ({ text, marks, label }: { text: string; marks: readonly PieceMark[]; label: string }) => {
  const pieces = useMemo(() => marked(text, marks), [text, marks.map((mark) => `${mark.start}${mark.name}`).join()]);
  return (
    <pre class="theirs" dir="auto" tabIndex={0} role="region" aria-label={visible(label)}>
      {pieces.map((piece, at) => {
        const text = <Coloured key={at} text={piece.text} />;
        return piece.name ? (
          <mark key={at} class={piece.name}>
            {text}
          </mark>
        ) : (
          text
        );
      })}
    </pre>
  );
};

const marked = (text: string, marks: readonly PieceMark[]): { text: string; name: string }[] => {
  const pieces: { text: string; name: string }[] = [];
  let at = 0;
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    const start = Math.max(at, mark.start);
    if (mark.end <= start || start >= text.length) continue;
    pieces.push({ text: text.slice(at, start), name: "" }, { text: text.slice(start, mark.end), name: mark.name });
    at = mark.end;
  }
  pieces.push({ text: text.slice(at), name: "" });
  return pieces.filter((piece) => piece.text);
};

/** A raster image of a row: decoded by the server, and shown from memory. */
const Image = ({ image, item, spot }: { image: ImagePart; item: OutlineItem; spot: Spot }) => {
  const [address, setAddress] = useState<string | null>(null);
  const [error, setError] = useState<ReplyError | null>(null);
  useEffect(() => {
    if (!image.type) return undefined;
    const stop = new AbortController();
    let made: string | null = null;
    askBlob(request("image", spot.places, { row: spot.row, at: item.at, part: image.part }), stop.signal)
      .then((blob) => {
        made = URL.createObjectURL(blob);
        setAddress(made);
      })
      .catch((cause: unknown) => {
        if (!stop.signal.aborted) setError(cause instanceof ReplyError ? cause : new ReplyError(0, { message: String(cause) }));
      });
    return () => {
      stop.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [image, item, spot]);
  if (error) return <ErrorBox error={error} />;
  if (!image.type) return <p class="theirs picture">{visible(image.text)}</p>;
  const text = `Image ${image.part + 1} of item ${item.at}: ${image.type.slice(6)}, ${bytes(image.bytes)}`;
  return (
    <figure class="theirs picture">
      {address && <img src={address} alt={text} />}
      <figcaption>{text}</figcaption>
    </figure>
  );
};

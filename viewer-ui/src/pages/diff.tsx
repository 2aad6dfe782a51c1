// Two rollouts, item by item: what is in A only, in B only, in both.

import { request } from "../api";
import { bytes, decimal } from "../format";
import { useKeys, useReply } from "../hooks";
import { Coloured, Panel, Theirs } from "../parts/common";
import { useRowKeys } from "../parts/table";
import { keyText } from "../places";
import type { Diff, DiffItem, OutlineItem, RolloutPage } from "../replies";
import { setParameters } from "../router";
import { coloursOf, visible } from "../text";

/** The page of a rollout that a reference names. */
const placeOfReference = (text: string): string => {
  const [run = "", task = "-", rollout = "-", row] = text.split("/");
  return `/r/${run}/t/${task}/${rollout}${row ? `?row=${row}` : ""}`;
};

const placeOfItem = (place: string, at: number): string => `${place}${place.includes("?") ? "&" : "?"}item=${at}`;

export const closeDiff = (): void => setParameters({ diff: null, from: null, equal: null }, { replace: false });

/** `diff` of the URL: two references with a comma; `from`: the first item; `equal`: equal ones too. */
export const DiffView = ({ search }: { search: URLSearchParams }) => {
  const pair = search.get("diff") ?? "";
  const [a = "", b = ""] = pair.split(",");
  const start = Number(search.get("from") ?? 0);
  const all = search.get("equal") === "true";
  const goTo = (item: number) => setParameters({ from: item > 0 ? String(item) : null });
  const reply = useReply(request("diff", {}, { a, b, start }));
  useKeys({ Escape: closeDiff, d: closeDiff });
  useRowKeys();
  return (
    <Panel reply={reply} class="diff first">
      {(diff) => (
        <>
          <h1 class="hidden">Difference of two rollouts</h1>
          <div class="diff-head">
            <Side name="A" page={diff.a} reference={a} run={diff.runs[0]} />
            <Side name="B" page={diff.b} reference={b} run={diff.runs[1]} />
          </div>
          {diff.expected.length > 0 && (
            <p class="expected">
              Expected answer:{" "}
              {diff.expected.map((text, at) => (
                <span key={at}>
                  {at > 0 && " or "}
                  <Theirs text={text} limit={200} />
                </span>
              ))}
            </p>
          )}
          <p class="table-tools">
            <FirstToken diff={diff} />
            <label>
              <input type="checkbox" checked={all} onChange={() => setParameters({ equal: all ? null : "true" })} /> Show what is equal
            </label>
            <button type="button" onClick={() => setParameters({ diff: `${b},${a}`, from: null })}>
              Swap
            </button>
            <button type="button" onClick={closeDiff}>
              Close
            </button>
          </p>
          <Items items={diff.items} all={all} places={[placeOfReference(a), placeOfReference(b)]} />
          {diff.total > diff.limit && (
            <nav class="pages" aria-label="Pages of the difference">
              <button type="button" disabled={start === 0} onClick={() => goTo(start - diff.limit)}>
                Previous
              </button>
              <p>
                items {diff.start + 1} to {diff.start + diff.items.length} of {diff.total}
              </p>
              <button type="button" disabled={diff.start + diff.items.length >= diff.total} onClick={() => goTo(start + diff.limit)}>
                Next
              </button>
            </nav>
          )}
        </>
      )}
    </Panel>
  );
};

const Side = ({ name, page, reference, run }: { name: string; page: RolloutPage; reference: string; run: string | undefined }) => (
  <div class={`side side-${name.toLowerCase()}`}>
    <h2>
      {name}: <a href={placeOfReference(reference)}>{visible(keyText(page.task, page.rollout, page.row))}</a>
      {run && (
        <small>
          {" "}
          of <Theirs text={run} limit={60} />
        </small>
      )}
    </h2>
    <p class="quiet">
      {page.reward === null ? visible(page.outcome) : `reward ${decimal(page.reward)}`}
      {page.model && `, ${visible(page.model)}`}
      {page.truncated && ", cut off"}
    </p>
  </div>
);

const FirstToken = ({ diff }: { diff: Diff }) => {
  const first = diff.first_token;
  const same = diff.items.length > 0 && diff.items.length === diff.total && diff.items.every((item) => item.same);
  return (
    <span class="quiet">
      {same && "The conversations are equal. "}
      {first && `Token ids differ first in turn ${first.turn}, position ${first.position}: ${first.a ?? "none"} and ${first.b ?? "none"}.`}
    </span>
  );
};

/** The pages of A and B. */
type Places = readonly [string, string];

const Items = ({ items, all, places }: { items: readonly DiffItem[]; all: boolean; places: Places }) => {
  const parts: (DiffItem | number)[] = [];
  for (const item of items) {
    const last = parts[parts.length - 1];
    if (all || !item.same) parts.push(item);
    else if (typeof last === "number") parts[parts.length - 1] = last + 1;
    else parts.push(1);
  }
  return (
    <ol class="diff-items">
      {parts.map((part, at) => (
        <li key={at}>{typeof part === "number" ? <p class="equal">{part === 1 ? "1 equal item" : `${part} equal items`}</p> : <Item item={part} places={places} />}</li>
      ))}
    </ol>
  );
};

const title = (item: OutlineItem): string => `${item.part === "prompt" ? "prompt, " : ""}${item.kind}${item.name ? ` ${item.name}` : ""}`;

const Item = ({ item, places }: { item: DiffItem; places: Places }) => {
  const { a, b, pieces } = item;
  const shown = a ?? b;
  if (!shown) return null;
  if (a && b) {
    return (
      <section class="diff-item" data-row tabIndex={-1}>
        <h3>
          {visible(title(a))} {item.same && <small>equal</small>} {item.by_lines && <small>by lines: words took too long</small>}
        </h3>
        {item.same ? (
          <pre class="theirs" dir="auto">
            <Coloured text={a.head} />
          </pre>
        ) : (
          <div class="diff-pair">
            <Pieces pieces={pieces} side="-" />
            <Pieces pieces={pieces} side="+" />
          </div>
        )}
      </section>
    );
  }
  const side = a ? "A" : "B";
  return (
    <section class="diff-item" data-row tabIndex={-1}>
      <h3>
        {visible(title(shown))} <small>only in {side}</small>{" "}
        <a href={placeOfItem(a ? places[0] : places[1], shown.at)}>{shown.size > shown.head.length ? `all ${bytes(shown.size)}` : "in its place"}</a>
      </h3>
      <div class="diff-pair">
        {side === "B" && <p class="nothing">nothing here</p>}
        <pre class="theirs alone" dir="auto">
          <Coloured text={shown.head} />
        </pre>
        {side === "A" && <p class="nothing">nothing here</p>}
      </div>
    </section>
  );
};

/** One side of a pair. Neither side is the right one, so what is in one only has the same mark in both. */
const Pieces = ({ pieces, side }: { pieces: DiffItem["pieces"]; side: "-" | "+" }) => {
  let colours = "";
  return (
    <pre class="theirs" dir="auto" tabIndex={0} role="region" aria-label={side === "-" ? "A" : "B"}>
      {pieces.filter((piece) => piece.op === "=" || piece.op === side).map((piece, at) => {
        const text = <Coloured key={at} text={colours + piece.text} />;
        colours += coloursOf(piece.text);
        return piece.op === "=" ? (
          text
        ) : (
          <mark key={at} class="only">
            {text}
          </mark>
        );
      })}
    </pre>
  );
};

// The row as it is stored: its bytes in ranges, and its JSON as a tree.

import { useState } from "preact/hooks";
import { request } from "../api";
import { amount, count } from "../format";
import { useReply } from "../hooks";
import { Panel } from "../parts/common";
import type { TreeEntry } from "../replies";
import { setParameters, usePlace } from "../router";
import { visible } from "../text";
import type { Spot } from "./conversation";

const RANGE = 65_536;
const MEMBERS = 500;

export const RawView = ({ spot }: { spot: Spot }) => {
  const start = Number(usePlace().search.get("from") ?? 0);
  const goTo = (byte: number) => setParameters({ from: byte > 0 ? String(byte) : null });
  const reply = useReply(request("raw", spot.places, { row: spot.row, start }));
  return (
    <Panel reply={reply} class="first">
      {(range) => (
        <>
          <nav class="pages" aria-label="Ranges of the row">
            <button type="button" disabled={range.start === 0} onClick={() => goTo(range.start - RANGE)}>
              Previous
            </button>
            <p role="status">
              bytes {count(range.start)} to {count(range.end)} of {count(range.size)}
            </p>
            <button type="button" disabled={range.end >= range.size} onClick={() => goTo(range.end)}>
              Next
            </button>
          </nav>
          <pre class="theirs raw" dir="auto" tabIndex={0} role="region" aria-label="Bytes of the row">
            {visible(range.text)}
          </pre>
        </>
      )}
    </Panel>
  );
};

export const TreeView = ({ spot }: { spot: Spot }) => (
  <section class="first tree">
    <Members spot={spot} path="" />
  </section>
);

const Members = ({ spot, path }: { spot: Spot; path: string }) => {
  const [start, setStart] = useState(0);
  const reply = useReply(request("tree", spot.places, { row: spot.row, path, start }));
  return (
    <Panel reply={reply}>
      {(tree) => (
        <>
          <ul>
            {tree.entries.map((entry) => (
              <li key={entry.path}>
                <Entry entry={entry} spot={spot} />
              </li>
            ))}
          </ul>
          {tree.total > MEMBERS && (
            <nav class="pages" aria-label={`Members of ${path || "the row"}`}>
              <button type="button" disabled={start === 0} onClick={() => setStart(start - MEMBERS)}>
                Previous
              </button>
              <p>
                {count(start + 1)} to {count(start + tree.entries.length)} of {count(tree.total)}
              </p>
              <button type="button" disabled={start + MEMBERS >= tree.total} onClick={() => setStart(start + MEMBERS)}>
                Next
              </button>
            </nav>
          )}
        </>
      )}
    </Panel>
  );
};

const Entry = ({ entry, spot }: { entry: TreeEntry; spot: Spot }) => {
  const [isOpen, setOpen] = useState(false);
  const key = (
    <bdi class="theirs" dir="auto">
      {visible(entry.key)}
    </bdi>
  );
  if (entry.kind === "object" || entry.kind === "array") {
    const size = entry.kind === "object" ? amount(entry.size, "member") : `${count(entry.size)} ${entry.size === 1 ? "entry" : "entries"}`;
    return (
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          {key} <span class="quiet">{size}</span>
        </summary>
        {isOpen && <Members spot={spot} path={entry.path} />}
      </details>
    );
  }
  return (
    <p class="leaf">
      {key}:{" "}
      <bdi class={`theirs ${entry.kind}`} dir="auto">
        {visible(entry.text)}
      </bdi>
      {entry.kind === "text" && entry.size > entry.text.length && <span class="quiet"> … {count(entry.size)} characters</span>}
    </p>
  );
};

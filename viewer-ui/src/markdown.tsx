// Markdown on demand, as elements: headings, lists, code, emphasis. No HTML, no links, no images.

import type { ComponentChildren } from "preact";
import { visible } from "./text";

const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*|__[^_\n]+__|\*[^*\s][^*\n]*\*)/;

const inline = (text: string): ComponentChildren[] =>
  text.split(INLINE).map((part, at) => {
    if (at % 2 === 0) return visible(part);
    if (part.startsWith("`")) return <code key={at}>{visible(part.slice(1, -1))}</code>;
    if (part.startsWith("**") || part.startsWith("__")) return <strong key={at}>{visible(part.slice(2, -2))}</strong>;
    return <em key={at}>{visible(part.slice(1, -1))}</em>;
  });

const HEADING = /^(#{1,6})\s+(.*)$/;
const ENTRY = /^\s*(?:[-*+]|\d+[.)])\s+(.*)$/;

/** A heading of a text is a paragraph here: it must not look like one of ours to a screen reader. */
export const Markdown = ({ text }: { text: string }) => {
  const blocks: ComponentChildren[] = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? "";
    if (/^\s*(```|~~~)/.test(line)) {
      const fence = line.trim().slice(0, 3);
      const end = lines.findIndex((other, place) => place > at && other.trim().startsWith(fence));
      const stop = end < 0 ? lines.length : end;
      blocks.push(<pre key={at}>{visible(lines.slice(at + 1, stop).join("\n"))}</pre>);
      at = stop + 1;
    } else if (HEADING.test(line)) {
      blocks.push(
        <p key={at} class="md-heading">
          {inline(HEADING.exec(line)?.[2] ?? "")}
        </p>,
      );
      at += 1;
    } else if (ENTRY.test(line)) {
      const start = at;
      while (at < lines.length && ENTRY.test(lines[at] ?? "")) at += 1;
      blocks.push(
        <ul key={start} class="md-list">
          {lines.slice(start, at).map((entry, place) => (
            <li key={place}>{inline(ENTRY.exec(entry)?.[1] ?? "")}</li>
          ))}
        </ul>,
      );
    } else if (!line.trim()) {
      at += 1;
    } else {
      const start = at;
      while (at < lines.length && (lines[at] ?? "").trim() && !/^\s*(```|~~~|#{1,6}\s)/.test(lines[at] ?? "") && !ENTRY.test(lines[at] ?? "")) at += 1;
      blocks.push(<p key={start}>{inline(lines.slice(start, at).join("\n"))}</p>);
    }
  }
  return (
    <div class="theirs markdown" dir="auto">
      {blocks}
    </div>
  );
};

// Text of rows is hostile: what is hidden is shown by name, and colours of terminals become classes.

// Same characters as `_HIDDEN` of palestra.analysis.report.markup; line breaks and tabs stay.
const HIDDEN =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
// More combining marks than any script needs, on one letter.
const MARKS = /(\p{M}{12})(\p{M}+)/gu;

const named = (character: string): string => {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
};

/** The text with every hidden character replaced by a visible code. */
export const visible = (text: string): string =>
  text
    .replaceAll("\r\n", "\n")
    .replace(HIDDEN, named)
    .replace(MARKS, (_, kept: string, more: string) => `${kept}⟨${[...more].length} more marks⟩`);

/** A sentence of the server as it stands alone: it begins with a capital letter. */
export const sentence = (text: string): string => text.replace(/^\p{Ll}/u, (letter) => letter.toUpperCase());

/** A sentence of the server with its full stop, for others to follow. */
export const fullSentence = (text: string): string => sentence(text).replace(/([^.?!])$/u, "$1.");

/** The text on one line of at most `limit` characters. */
export const visibleLine = (text: string, limit: number): string => {
  const line = text.slice(0, 4 * limit).split(/\s+/u).filter(Boolean).join(" ");
  return visible(line.length <= limit ? line : `${line.slice(0, limit - 1)}…`);
};

export interface Span {
  text: string;
  /** Classes of the style sheet; empty for plain text. */
  style: string;
}

const SGR = /\x1b\[([0-9;]*)m/g;
const FLAGS: Readonly<Record<number, string>> = { 1: "ansi-bold", 3: "ansi-italic", 4: "ansi-under" };

/** Splits a text with ANSI colours into spans. Other escapes are shown by name. */
export const ansiSpans = (text: string): Span[] => {
  if (!text.includes("\x1b[")) return [{ text: visible(text), style: "" }];
  const spans: Span[] = [];
  let flags: string[] = [];
  let colour = "";
  let start = 0;
  const push = (end: number) => {
    if (end > start) {
      spans.push({ text: visible(text.slice(start, end)), style: [...flags, colour].filter(Boolean).join(" ") });
    }
  };
  for (const match of text.matchAll(SGR)) {
    push(match.index);
    start = match.index + match[0].length;
    for (const code of (match[1] || "0").split(";").map(Number)) {
      if (code === 0) [flags, colour] = [[], ""];
      else if (FLAGS[code]) flags = [...new Set([...flags, FLAGS[code]])];
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = `ansi-${code % 10}`;
      else if (code === 39) colour = "";
    }
  }
  push(text.length);
  return spans;
};

/** The escapes of a text that set colours: put before a text, it begins in the colours in which this one ends. */
export const coloursOf = (text: string): string => (text.match(SGR) ?? []).join("");

/** Whether a text is printable ASCII only, as a command that is copied must be. */
export const isPlain = (text: string): boolean => /^[\x20-\x7e\n]*$/.test(text);

// Asking the server: typed requests, a token in a header, one error class, lines of a streamed reply.

import { ENDPOINTS, type Base, type ErrorReply, type ReplyOf } from "./replies";

const KEY = "palestra-token";
const VERSION = "Palestra-Index-Version";
/** The server itself waits a second for the row. */
const ASK_AGAIN_MS = 500;

type Name = keyof ReplyOf;
type Value = string | number | boolean | null | undefined;

/** A request whose reply has the type T. */
export interface Request<T> {
  path: string;
  readonly reply?: T;
}

/** The request for an endpoint; `places` fills its path, and empty parameters are left out. */
export const request = <N extends Name>(
  name: N,
  places: Readonly<Record<string, string | number>> = {},
  parameters: Readonly<Record<string, Value>> = {},
): Request<ReplyOf[N]> => {
  const path = ENDPOINTS[name].path.replace(/\{(\w+)\}/g, (_, place: string) => encodeURIComponent(String(places[place])));
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return { path: text ? `${path}?${text}` : path };
};

/** What went wrong, where, and what to do, in the server's words. */
export class ReplyError extends Error {
  constructor(
    readonly status: number,
    readonly reply: Partial<ErrorReply>,
  ) {
    super(reply.message ?? `HTTP ${status}`);
  }
}

/** Moves the token from the URL's fragment into the origin's storage. */
export const takeToken = (): void => {
  const match = /^#token=([\w-]+)$/.exec(location.hash);
  if (match?.[1]) {
    localStorage.setItem(KEY, match[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
};

/** A reply, and the version of the index that it rests on at least; null for a reply of no run. */
export interface VersionedReply<T> {
  data: T;
  version: number | null;
}

const ask = async (path: string, signal?: AbortSignal): Promise<Response> => {
  const headers = { Authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}` };
  let response: Response;
  try {
    response = await fetch(path, { headers, signal: signal ?? null, cache: "no-store", redirect: "error" });
  } catch (error) {
    if (signal?.aborted) throw error;
    const hint = "Look whether `palestra view` still runs, then reload this page.";
    throw new ReplyError(0, { message: "The viewer does not answer.", hint });
  }
  if (!response.ok) throw await refusal(response);
  return response;
};

const refusal = async (response: Response): Promise<ReplyError> => {
  const text = await response.text();
  try {
    const reply = JSON.parse(text) as ErrorReply;
    // a restart has another token, and the old tabs are the usual reason
    const hint = response.status === 403 && !reply.hint ? "Each start of `palestra view` prints a new address." : reply.hint;
    return new ReplyError(response.status, { ...reply, hint });
  } catch {
    return new ReplyError(response.status, { message: text.slice(0, 500) || `HTTP ${response.status}` });
  }
};

/** The reply to a request. What is not indexed yet is asked for again until it is; `behind` then
 * receives how far the index is.
 */
export const askReply = async <T>(wanted: Request<T>, signal?: AbortSignal, behind?: (indexed: Base) => void): Promise<VersionedReply<T>> => {
  for (;;) {
    try {
      const response = await ask(wanted.path, signal);
      const version = response.headers.get(VERSION);
      return { data: (await response.json()) as T, version: version === null ? null : Number(version) };
    } catch (error) {
      const indexed = error instanceof ReplyError ? error.reply.indexed : null;
      if (!indexed) throw error;
      behind?.(indexed);
    }
    await visibleAfter(ASK_AGAIN_MS, signal);
  }
};

/** Waits, and on while the tab is hidden: tabs in the background ask nothing. */
const visibleAfter = async (ms: number, signal?: AbortSignal): Promise<void> => {
  do {
    await new Promise((resolve) => setTimeout(resolve, ms));
    signal?.throwIfAborted();
  } while (document.visibilityState === "hidden");
};

export const askBlob = async (wanted: Request<Blob>, signal?: AbortSignal): Promise<Blob> =>
  (await ask(wanted.path, signal)).blob();

const lineOf = <T>(text: string): T => {
  const line = JSON.parse(text) as T | ErrorReply;
  if (line && typeof line === "object" && "error" in line) throw new ReplyError(500, line);
  return line as T;
};

/** Calls `receive` for every line of a streamed reply, until it ends or `signal` aborts it. */
export const askLines = async <T>(wanted: Request<T>, receive: (line: T) => void, signal: AbortSignal): Promise<void> => {
  const body = (await ask(wanted.path, signal)).body;
  if (!body) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
    rest = lines.pop() ?? "";
    if (done) lines.push(rest);
    for (const line of lines) if (line.trim()) receive(lineOf<T>(line));
    if (done) return;
  }
};

/** Saves a reply as a file of the reader's machine. */
export const download = async (wanted: Request<Blob>, name: string): Promise<void> => {
  const address = URL.createObjectURL(await askBlob(wanted));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
};

// Hooks for replies of the server, for keys and for the title.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { askLines, askReply, ReplyError, type Request } from "./api";
import type { Base } from "./replies";

export interface Reply<T> {
  /** The last reply. It stays while the next one is on its way. */
  data: T | null;
  error: ReplyError | null;
  /** How far the index is, while the request waits for it. */
  indexed: Base | null;
  loading: boolean;
  again: () => void;
}

interface ReplyOptions {
  everyMs?: number;
  version?: number | null;
}

const asError = (error: unknown): ReplyError =>
  error instanceof ReplyError ? error : new ReplyError(0, { message: error instanceof Error ? error.message : String(error) });

/** The reply to a request; null asks nothing. It is asked again when its path changes, and when
 * `version` of the index is not the one that it rests on.
 */
export const useReply = <T>(wanted: Request<T> | null, { everyMs = 0, version = null }: ReplyOptions = {}): Reply<T> => {
  const path = wanted?.path ?? null;
  const [reply, setReply] = useState<{ data: T | null; error: ReplyError | null; path: string | null; version: number | null }>({
    data: null,
    error: null,
    path: null,
    version: null,
  });
  const [behind, setBehind] = useState<{ indexed: Base; path: string } | null>(null);
  const [turn, setTurn] = useState(0);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (path === null) return undefined;
    const stop = new AbortController();
    askReply<T>({ path }, stop.signal, (indexed) => setBehind({ indexed, path }))
      .then((answer) => setReply({ ...answer, error: null, path }))
      .catch((cause: unknown) => {
        if (!stop.signal.aborted) setReply((before) => ({ data: before.data, error: asError(cause), path, version: null }));
      })
      .finally(() => {
        if (!stop.signal.aborted) setBehind(null);
      });
    return () => stop.abort();
  }, [path, turn]);
  // the reply may be of before the page knew a version at all, so versions are compared, not changes counted
  const asked = useRef<number | null>(null);
  const isAnswered = path !== null && reply.path === path;
  useEffect(() => {
    if (!isAnswered || version === null || version === asked.current || version === reply.version) return;
    asked.current = version;
    again();
  }, [isAnswered, version, reply.version, again]);
  useEffect(() => {
    if (!everyMs || path === null) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && again(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, path, again]);
  const indexed = behind?.path === path ? behind.indexed : null;
  return { data: reply.data, error: reply.error, indexed, loading: path !== null && reply.path !== path, again };
};

/** Calls `receive` for every line of a stream, while the tab is visible; it is opened again after it
 * ended. A browser has six connections to an origin, so tabs in the background must hold none.
 * `once`: the stream has an end, and is read to it.
 */
export const useLines = <T>(wanted: Request<T> | null, receive: (line: T) => void, { once = false } = {}): ReplyError | null => {
  const path = wanted?.path ?? null;
  const latest = useRef(receive);
  latest.current = receive;
  const [error, setError] = useState<ReplyError | null>(null);
  useEffect(() => {
    if (path === null) return undefined;
    let stop = new AbortController();
    let timer = 0;
    const open = () => {
      const { signal } = (stop = new AbortController());
      askLines<T>({ path }, (line) => latest.current(line), signal)
        .then(() => setError(null))
        .catch((cause: unknown) => {
          if (!signal.aborted) setError(asError(cause));
        })
        .finally(() => {
          if (!once && !signal.aborted) timer = setTimeout(open, 3_000);
        });
    };
    const close = () => {
      stop.abort();
      clearTimeout(timer);
    };
    const changed = () => {
      if (once) return;
      close();
      if (document.visibilityState === "visible") open();
    };
    if (once || document.visibilityState === "visible") open();
    document.addEventListener("visibilitychange", changed);
    return () => {
      document.removeEventListener("visibilitychange", changed);
      close();
    };
  }, [path, once]);
  return error;
};

export const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || target.matches("textarea, select, input:not([type=checkbox]):not([type=range])"));

type Keys = Readonly<Record<string, (() => void) | undefined>>;

/** Keys of a page, by `KeyboardEvent.key`. They rest while the reader types or a dialog is open. */
export const useKeys = (keys: Keys): void => {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
      const act = latest.current[event.key];
      if (!act || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
};

export const useTitle = (title: string): void => {
  useEffect(() => {
    document.title = `${title} · Palestra`;
  }, [title]);
};

/** True from `ms` after `active` became true: short waits then show nothing. */
export const useLate = (active: boolean, ms = 250): boolean => {
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (!active) {
      setLate(false);
      return undefined;
    }
    const timer = setTimeout(() => setLate(true), ms);
    return () => clearTimeout(timer);
  }, [active, ms]);
  return late;
};

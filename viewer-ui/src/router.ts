// The state of the page is its URL: path for the place, search for everything else.

import { useEffect, useState } from "preact/hooks";

export interface Place {
  path: string;
  search: URLSearchParams;
}

const CHANGED = "palestra-place";

const current = (): Place => ({ path: location.pathname, search: new URLSearchParams(location.search) });

/** Goes to a place of this page. `replace`: without an entry in the history. */
export const go = (to: string, { replace = false } = {}): void => {
  if (to === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  dispatchEvent(new Event(CHANGED));
};

/** The URL of this place with some parameters changed; null and "" drop one. */
export const placeWith = (changes: Readonly<Record<string, string | null>>, path = location.pathname): string => {
  const search = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") search.delete(name);
    else search.set(name, value);
  }
  return placeOf(path, search);
};

export const placeOf = (path: string, search: URLSearchParams | Readonly<Record<string, string>>): string => {
  const text = (search instanceof URLSearchParams ? search : new URLSearchParams(search)).toString();
  return text ? `${path}?${text}` : path;
};

/** Changes parameters of the URL in place: state that is not worth a step back. */
export const setParameters = (changes: Readonly<Record<string, string | null>>, options = { replace: true }): void =>
  go(placeWith(changes), options);

export const usePlace = (): Place => {
  const [place, setPlace] = useState(current);
  useEffect(() => {
    const changed = () => setPlace(current());
    addEventListener("popstate", changed);
    addEventListener(CHANGED, changed);
    return () => {
      removeEventListener("popstate", changed);
      removeEventListener(CHANGED, changed);
    };
  }, []);
  return place;
};

/** Makes clicks on links of this page stay in it, as long as no key asks for another window. */
export const followLinks = (): void => {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest("a");
    const to = link?.getAttribute("href");
    if (!to?.startsWith("/") || to.startsWith("//") || link?.hasAttribute("download") || link?.target) return;
    event.preventDefault();
    go(to);
    scrollTo(0, 0);
  });
};

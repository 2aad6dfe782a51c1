// The query box, its errors, and the facets that write terms into it.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ReplyError } from "../api";
import { count } from "../format";
import { useKeys } from "../hooks";
import { askedOf, withTerm } from "../query";
import type { Facet } from "../replies";
import { setParameters } from "../router";
import { fullSentence, visible, visibleLine } from "../text";

/** Writes a query into the URL; the table starts at its beginning again. */
export const setQuery = (query: string): void => setParameters({ q: query || null, offset: null }, { replace: false });

/** Queries of a table, each of fields that it has; the first stands in the empty box. */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  rollouts: ['outcome:scored reward<1', 'tokens.out>2000 -"boxed"', 'text:"division by zero"'],
  tasks: ["pass_rate:0.1..0.9", "solved:sometimes", "mean<0.5 sort:-std"],
  "compared tasks": ["delta<0"],
};

export const QueryBox = ({ query, error, place }: { query: string; error: ReplyError | null; place: string }) => {
  const [text, setText] = useState(query);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setText(query), [query]);
  useKeys({ "/": () => input.current?.select() });
  const bad = error?.status === 400 ? error.reply : null;
  const fix = bad?.nearest && bad.position !== null && bad.position !== undefined ? fixed(query, bad.position, bad.nearest) : null;
  return (
    <form
      class="query"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        setQuery(text.trim());
      }}
    >
      <label class="hidden" for="query">
        Query of {place}
      </label>
      <input
        id="query"
        ref={input}
        type="search"
        spellcheck={false}
        autocomplete="off"
        placeholder={EXAMPLES[place]?.[0] ?? ""}
        value={text}
        aria-invalid={Boolean(bad)}
        aria-describedby={bad ? "query-error" : undefined}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      <button type="submit">Filter</button>
      {query && (
        <button type="button" onClick={() => setQuery("")}>
          Clear
        </button>
      )}
      {bad && (
        <div class="query-error" id="query-error" role="alert">
          {bad.position !== null && bad.position !== undefined && (
            <code>
              {visible(query.slice(0, bad.position))}
              <mark>{visible(query.slice(bad.position)) || " "}</mark>
            </code>
          )}
          <p>
            {fullSentence(visible(bad.message ?? ""))} {fullSentence(visible(bad.hint ?? ""))}{" "}
            {fix && (
              <button type="button" onClick={() => setQuery(fix)}>
                Use {visible(bad.nearest ?? "")}
              </button>
            )}
          </p>
        </div>
      )}
    </form>
  );
};

const fixed = (query: string, position: number, nearest: string): string =>
  query.slice(0, position) + query.slice(position).replace(/^[\w.]+/, nearest);

/** Examples of the language, where a query matches nothing. */
export const QueryExamples = ({ place }: { place: string }) => (
  <p class="quiet">
    Try{" "}
    {EXAMPLES[place]?.map((example) => (
      <button key={example} type="button" class="term" onClick={() => setQuery(example)}>
        {example}
      </button>
    ))}
  </p>
);

/** The most frequent values of one field; each writes its term into the query. */
export const FacetList = ({ facet, query }: { facet: Facet; query: string }) => {
  const asked = askedOf(query, facet.field);
  const most = Math.max(1, ...facet.values.map((value) => value.count));
  return (
    <section class="facet">
      <h2>{facet.field}</h2>
      <ul>
        {facet.values.map((value) => {
          const active = asked === value.name || query.includes(value.query);
          return (
            <li key={value.name}>
              <button
                type="button"
                aria-pressed={active}
                title={visible(value.query)}
                onClick={() => setQuery(withTerm(query, facet.field, active ? null : value.query))}
              >
                <bdi class="facet-name" dir="auto">
                  {visibleLine(value.name, 60) || "(empty)"}
                </bdi>
                <span class="n">{count(value.count)}</span>
                <svg class="facet-bar" aria-hidden="true">
                  <rect x="0" y="0" height="100%" width={`${(100 * value.count) / most}%`} />
                </svg>
              </button>
            </li>
          );
        })}
      </ul>
      {facet.others > 0 && <p class="quiet">{count(facet.others)} other values</p>}
    </section>
  );
};

// Writes terms into the text of a query. The server parses it; here terms of one field are replaced.

const TERM = /-?(?:[\w.]+(?::|!=|<=|>=|=|<|>)(?:"[^"]*"|[^\s()]+)|"[^"]*"|[^\s()]+)|[()]/g;

export const termsOf = (query: string): string[] => query.match(TERM) ?? [];

const fieldOf = (term: string): string | null => /^-?([\w.]+)(?::|!=|<=|>=|=|<|>)/.exec(term)?.[1] ?? null;

const hasGroups = (query: string): boolean => /[()]|\bor\b/.test(query);

/** The query with the terms of `field` replaced by `term`; null drops them. */
export const withTerm = (query: string, field: string, term: string | null): string => {
  // inside parentheses the meaning of a term depends on its neighbours
  const kept = hasGroups(query) ? [`(${query})`] : termsOf(query).filter((old) => fieldOf(old) !== field);
  return [...kept, ...(term ? [term] : [])].join(" ").trim();
};

/** The term `field:value`, quoted where it must be. */
export const equals = (field: string, value: string): string =>
  `${field}:${/^[\w.+-]+$/.test(value) && !value.includes("..") ? value : `"${value.replaceAll('"', "")}"`}`;

export const between = (field: string, low: number, high: number): string => `${field}:${low}..${high}`;

/** The value that the query asks of a field, when it asks for one. */
export const askedOf = (query: string, field: string): string | null => {
  const term = termsOf(query).find((candidate) => candidate.startsWith(`${field}:`));
  return term ? term.slice(field.length + 1).replace(/^"|"$/g, "") : null;
};

export const sortOf = (query: string): string | null => askedOf(query, "sort");

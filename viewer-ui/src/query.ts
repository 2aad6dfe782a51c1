// Writes terms into the text of a query. The server parses it; here terms of one field are replaced.

const TERM = /-?(?:(?:[\w.][\w.-]*|"[^"]+")(?::|!=|<=|>=|=|<|>)(?:"[^"]*"|[^\s()]+)|"[^"]*"|[^\s()]+)|[()]/g;

export const termsOf = (query: string): string[] => query.match(TERM) ?? [];

const fieldOf = (term: string): string | null => {
  const found = /^-?(?:([\w.][\w.-]*)|"([^"]+)")(?::|!=|<=|>=|=|<|>)/.exec(term);
  return found?.[1] ?? found?.[2] ?? null;
};

/** The field as a query writes it: a name with spaces or signs is quoted. */
const nameOf = (field: string): string => (/^[^\W\d][\w.-]*$/u.test(field) ? field : `"${field}"`);

const hasGroups = (query: string): boolean => /[()]|\bor\b/.test(query);

/** The query with the terms of `field` replaced by `term`; null drops them. */
export const withTerm = (query: string, field: string, term: string | null): string => {
  // inside parentheses the meaning of a term depends on its neighbours
  const kept = hasGroups(query) ? [`(${query})`] : termsOf(query).filter((old) => fieldOf(old) !== field);
  return [...kept, ...(term ? [term] : [])].join(" ").trim();
};

/** The term `field:value`, quoted where it must be. */
export const equals = (field: string, value: string): string =>
  `${nameOf(field)}:${/^[\w.+-]+$/.test(value) && !value.includes("..") ? value : `"${value.replaceAll('"', "")}"`}`;

export const between = (field: string, low: number, high: number): string => `${nameOf(field)}:${low}..${high}`;

/** The value that the query asks of a field, when it asks for one. */
export const askedOf = (query: string, field: string): string | null => {
  const start = `${nameOf(field)}:`;
  const term = termsOf(query).find((candidate) => candidate.startsWith(start));
  return term ? term.slice(start.length).replace(/^"|"$/g, "") : null;
};

export const sortOf = (query: string): string | null => askedOf(query, "sort");

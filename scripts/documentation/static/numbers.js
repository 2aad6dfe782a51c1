// Sphinx's search passes over words that are numbers. Readers look for 429.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const parsed = parse(query);
    const [, terms, , highlighted] = parsed;
    for (const word of query.match(/\b\d+\b/g) ?? []) {
      terms.add(word);
      highlighted.add(word);
    }
    return parsed;
  };
});

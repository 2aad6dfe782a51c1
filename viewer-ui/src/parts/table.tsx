// A table that the server pages and sorts; its state is in the URL.

import type { ComponentChildren } from "preact";
import { useKeys } from "../hooks";
import { count } from "../format";
import { setParameters } from "../router";

export interface Head {
  name: string;
  label: string;
  /** Numbers stand at the right. */
  numeric?: boolean;
  sortable?: boolean;
  class?: string;
}

interface TableProps {
  label: string;
  heads: readonly Head[];
  sort: string;
  children: ComponentChildren;
}

const nextSort = (name: string, sort: string, numeric: boolean): string => {
  // numbers are mostly asked for from the largest down
  const order = numeric ? [`-${name}`, name] : [name, `-${name}`];
  const at = order.indexOf(sort);
  return at === 0 ? (order[1] ?? "") : at === 1 ? "" : (order[0] ?? "");
};

export const Table = ({ label, heads, sort, children }: TableProps) => (
  <div class="scrolling" tabIndex={0} role="region" aria-label={label}>
    <table class="tasks">
      <thead>
        <tr>
          {heads.map((head) => {
            const direction = sort === head.name ? "ascending" : sort === `-${head.name}` ? "descending" : undefined;
            return (
              <th key={head.name} scope="col" class={`${head.numeric ? "n" : ""} ${head.class ?? ""}`.trim()} aria-sort={direction}>
                {head.sortable ? (
                  <button
                    type="button"
                    onClick={() => setParameters({ sort: nextSort(head.name, sort, Boolean(head.numeric)) || null, offset: null }, { replace: false })}
                  >
                    {head.label}
                  </button>
                ) : (
                  head.label
                )}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);

interface PagesProps {
  offset: number;
  size: number;
  matches: number;
  total: number;
  noun: string;
  /** The second of a table, below it. */
  below?: boolean;
}

export const Pages = ({ offset, size, matches, total, noun, below = false }: PagesProps) => {
  const to = (next: number) => {
    setParameters({ offset: next ? String(next) : null }, { replace: false });
    document.querySelector(".tasks")?.scrollIntoView({ block: "nearest" });
  };
  const text =
    total === 0
      ? `no ${noun} yet`
      : matches === 0
      ? `no ${noun} of ${count(total)} match`
      : `${count(offset + 1)} to ${count(Math.min(offset + size, matches))} of ${count(matches)}${matches < total ? ` that match, of ${count(total)}` : ""} ${noun}`;
  return (
    <nav class="pages" aria-label={below ? "Pages, below the table" : "Pages of the table"}>
      <button type="button" disabled={offset === 0} onClick={() => to(Math.max(0, offset - size))}>
        Previous
      </button>
      <p role={below ? undefined : "status"}>{text}</p>
      <button type="button" disabled={offset + size >= matches} onClick={() => to(offset + size)}>
        Next
      </button>
    </nav>
  );
};

/** Moves the focus between the elements with `data-row`, as j and k do. */
export const moveRow = (step: 1 | -1): void => {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const link = (row: HTMLElement | undefined) => row?.matches("a, button, summary, [tabindex]") ? row : row?.querySelector<HTMLElement>("a, button, summary");
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
  const target = link(rows[next]);
  target?.focus({ preventScroll: true });
  rows[next]?.scrollIntoView({ block: "nearest" });
};

export const useRowKeys = (): void => useKeys({ j: () => moveRow(1), k: () => moveRow(-1) });

// `/r/ID/tasks` and `/r/ID/rollouts`: what matches a query, with facets and brushes that write it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { request } from "../api";
import { amount, bytes, count, decimal, number, percent } from "../format";
import { useLines, useReply } from "../hooks";
import { Brush, Strip } from "../parts/charts";
import { ErrorBox, Theirs } from "../parts/common";
import { FacetList, QueryBox, QueryExamples, setQuery } from "../parts/query";
import { type Head, Pages, Table, useRowKeys } from "../parts/table";
import { type Cell, keyText, type Of, rolloutPlace, taskPlace } from "../places";
import { askedOf, between, withTerm } from "../query";
import type { TableColumn, Facets, Histograms, RolloutTable, SearchHit, SearchProgress, TaskTable } from "../replies";
import { setParameters } from "../router";
import { sentence, visible } from "../text";
import type { RunView } from "./layout";

const SIZE = 100;
const SHARES = new Set(["pass_rate"]);

const cellText = (column: TableColumn, cell: Cell): string => {
  if (cell === null || cell === undefined) return "–";
  if (typeof cell === "boolean") return cell ? "yes" : "no";
  if (typeof cell === "string") return cell;
  if (SHARES.has(column.name)) return percent(cell);
  if (/^(reward|mean|std|learnability|delta)$/.test(column.name)) return decimal(cell);
  return Number.isInteger(cell) ? count(cell) : number(cell);
};

const headOf = (column: TableColumn): Head => ({
  name: column.name,
  label: column.label,
  numeric: column.kind === "number",
  sortable: column.sortable,
});

const rangeOf = (query: string, field: string): readonly [number, number] | null => {
  const asked = askedOf(query, field);
  if (asked === null) return null;
  const [low, high] = asked.includes("..") ? asked.split("..").map(Number) : [Number(asked), Number(asked)];
  return low === undefined || high === undefined || Number.isNaN(low) || Number.isNaN(high) ? null : [low, high];
};

interface TablePageProps {
  view: RunView;
  of: Of;
  search: URLSearchParams;
  /** The query of `--filter`, for a table that is opened without one. */
  first: string;
}

export const TablePage = ({ view, of, search, first }: TablePageProps) => {
  useRowKeys();
  const query = search.get("q") ?? "";
  const sort = search.get("sort") ?? "";
  const offset = Number(search.get("offset") ?? 0);
  const chosen = search.get("columns") ?? "";
  useEffect(() => {
    if (first && !search.has("q")) setParameters({ q: first });
  }, [first]);
  const { id, version } = view;
  const places = { run: id };
  const columns = useReply(request("columns", places), { version });
  const page = { q: query, sort, offset, limit: SIZE, columns: chosen };
  const table = useReply<TaskTable | RolloutTable>(of === "tasks" ? request("tasks", places, page) : request("rollouts", places, page), { version });
  const facets = useReply(request("facets", places, { q: query, of }), { version });
  const histograms = useReply(request("histograms", places, { q: query, of }), { version });
  const all = columns.data?.[of] ?? [];
  const data = table.data;
  const isSearch = data !== null && "streaming" in data && data.streaming;
  const isOld = table.error?.status === 400;
  return (
    <>
      <h1 class="small">{of === "tasks" ? "Tasks" : "Rollouts"}</h1>
      <QueryBox query={query} error={table.error} place={of} />
      {table.error && !isOld && <ErrorBox error={table.error} />}
      <div class="with-facets">
        <aside aria-label="Filters">
          {!isOld && <Filters facets={facets.data} histograms={histograms.data} query={query} />}
          {facets.error && facets.error.status !== 400 && <ErrorBox error={facets.error} />}
        </aside>
        <div class="table-part" aria-busy={table.loading}>
          {isOld && <QueryExamples place={of} />}
          {data && !isOld && (
            <>
              {!isSearch && (
                <div class="table-tools">
                  <Pages offset={data.offset} size={SIZE} matches={data.matches} total={data.total} noun={of} />
                  {all.length > 0 && <Chooser columns={all} shown={data.columns} />}
                </div>
              )}
              {isSearch ? (
                <Search run={id} query={query} />
              ) : (
                <Table label={of} sort={sort} heads={of === "tasks" ? taskHeads(data.columns) : rolloutHeads(data.columns)}>
                  {"streaming" in data ? (
                    <RolloutRows table={data} run={id} query={query} sort={sort} />
                  ) : (
                    <TaskRows table={data} run={id} />
                  )}
                </Table>
              )}
              {data.absent.length > 0 && <p>{data.absent.map((line) => sentence(visible(line))).join(" ")}</p>}
              {data.matches === 0 && query && <QueryExamples place={of} />}
              {!isSearch && data.matches > SIZE && <Pages offset={data.offset} size={SIZE} matches={data.matches} total={data.total} noun={of} below />}
            </>
          )}
        </div>
      </div>
    </>
  );
};

const Filters = ({ facets, histograms, query }: { facets: Facets | null; histograms: Histograms | null; query: string }) => {
  const [opened, setOpened] = useState(() => matchMedia("(min-width: 60rem)").matches);
  return (
    <details class="filters-fold" open={opened} onToggle={(event) => setOpened(event.currentTarget.open)}>
      <summary>Filters</summary>
      {histograms?.histograms.map((histogram) => (
        <Brush
          key={histogram.field}
          histogram={histogram}
          label={histogram.field}
          chosen={rangeOf(query, histogram.field)}
          onChoose={(range) => setQuery(withTerm(query, histogram.field, range ? between(histogram.field, range[0], range[1]) : null))}
        />
      ))}
      {facets?.facets.map((facet) => <FacetList key={facet.field} facet={facet} query={query} />)}
    </details>
  );
};

const Chooser = ({ columns, shown }: { columns: readonly TableColumn[]; shown: readonly TableColumn[] }) => {
  const names = shown.map((column) => column.name);
  const toggle = (name: string) => {
    const next = names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
    setParameters({ columns: next.join(",") || null }, { replace: false });
  };
  return (
    <details
      class="chooser"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        event.currentTarget.open = false;
      }}
    >
      <summary>Columns</summary>
      <fieldset>
        <legend class="hidden">Columns of the table</legend>
        {columns.map((column) => (
          <label key={column.name}>
            <input type="checkbox" checked={names.includes(column.name)} onChange={() => toggle(column.name)} /> {visible(column.label)}
          </label>
        ))}
        <button type="button" onClick={() => setParameters({ columns: null }, { replace: false })}>
          The usual ones
        </button>
      </fieldset>
    </details>
  );
};

const KEY_COLUMNS: ReadonlySet<string> = new Set(["task", "rollout"]);

const taskHeads = (columns: readonly TableColumn[]): Head[] => [
  { name: "task", label: "Task", sortable: true },
  { name: "prompt", label: "Prompt", class: "prompt" },
  { name: "rewards", label: "Rewards" },
  ...columns.filter((column) => column.name !== "task").map(headOf),
];

const TaskRows = ({ table, run }: { table: TaskTable; run: string }) => (
  <>
    {table.rows.map((row) => (
      <tr key={row.task} data-row>
        <th scope="row" class="name">
          <a href={taskPlace(run, row.task)}>
            <bdi dir="auto">{visible(String(row.task))}</bdi>
          </a>
        </th>
        <td class="prompt">
          <Theirs text={row.prompt} />
        </td>
        <td>
          <Strip rewards={row.rewards} />
        </td>
        {table.columns.map((column, at) =>
          column.name === "task" ? null : <DataCell key={column.name} column={column} cell={row.cells[at] ?? null} />,
        )}
      </tr>
    ))}
  </>
);

const rolloutHeads = (columns: readonly TableColumn[]): Head[] => [
  { name: "task", label: "Rollout", sortable: true },
  ...columns.filter((column) => !KEY_COLUMNS.has(column.name)).map(headOf),
];

interface RolloutRowsProps {
  table: RolloutTable;
  run: string;
  query: string;
  sort: string;
}

const RolloutRows = ({ table, run, query, sort }: RolloutRowsProps) => (
  <>
    {table.rows.map((row) => {
      const options = { row: row.row, isMarked: row.marks.length > 0, q: query, sort };
      return (
        <tr key={row.row} data-row>
          <th scope="row" class="name">
            <a href={rolloutPlace(run, row.task, row.rollout, options)}>{visible(keyText(row.task, row.rollout, row.row))}</a>
            {row.marks.map((mark) => (
              <small key={mark} class="problem">
                {visible(mark)}
              </small>
            ))}
          </th>
          {table.columns.map((column, at) =>
            KEY_COLUMNS.has(column.name) ? null : (
              <DataCell
                key={column.name}
                column={column}
                cell={row.cells[at] ?? null}
                href={column.name === "tokens.out" ? rolloutPlace(run, row.task, row.rollout, { ...options, panel: "tokens" }) : null}
              />
            ),
          )}
        </tr>
      );
    })}
  </>
);

const DataCell = ({ column, cell, href = null }: { column: TableColumn; cell: Cell; href?: string | null }) => {
  const text = cellText(column, cell);
  if (column.name === "outcome") return <td>{cell === null ? "–" : <span class={`outcome ${cell === "scored" ? "good" : "bad"}`}>{visible(text)}</span>}</td>;
  if (column.kind === "text") return <td class="text">{cell === null ? "–" : <Theirs text={text} limit={80} />}</td>;
  return (
    <td class="n">
      {href && cell !== null ? (
        <a href={href} aria-label={`${text} tokens: read them`}>
          {text}
        </a>
      ) : (
        text
      )}
    </td>
  );
};

/** Hits of `text:`, as they stream in. */
const Search = ({ run, query }: { run: string; query: string }) => {
  const wanted = useMemo(() => request("search", { run }, { q: query }), [run, query]);
  const [state, setState] = useState<{ hits: SearchHit[]; last: SearchProgress | null; path: string }>({ hits: [], last: null, path: "" });
  const error = useLines(
    wanted,
    (line) =>
      setState((before) => {
        const hits = before.path === wanted.path ? before.hits : [];
        return { hits: [...hits, ...line.hits], last: line, path: wanted.path };
      }),
    { once: true },
  );
  const { hits, last } = state;
  return (
    <>
      {error && <ErrorBox error={error} />}
      <p class="quiet" role="status">
        {last ? `${amount(hits.length, "hit")} in ${bytes(last.searched)} of ${amount(last.candidates, "transcript")}` : "Searching…"}
        {last?.limit_reached && "; there are more: narrow the query"}
        {last && !last.done && " …"}
      </p>
      <ol class="hits">
        {hits.map((hit, at) => (
          <li key={at} data-row>
            <a href={rolloutPlace(run, hit.task, hit.rollout, { row: hit.row, q: query })}>{visible(keyText(hit.task, hit.rollout, hit.row))}</a>{" "}
            <bdi class="theirs" dir="auto">
              {visible(hit.before)}
              <mark>{visible(hit.match)}</mark>
              {visible(hit.after)}
            </bdi>
          </li>
        ))}
      </ol>
    </>
  );
};

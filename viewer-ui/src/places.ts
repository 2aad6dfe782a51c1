// URLs of the pages, and the order of their parts.

import { placeOf } from "./router";

/** A value of a row, as replies hold it. */
export type Cell = number | string | boolean | null;

export type Of = "tasks" | "rollouts";

const part = (value: Cell | undefined): string => (value === null || value === undefined ? "-" : encodeURIComponent(String(value)));

export const runPlace = (run: string): string => `/r/${run}`;

export const tablePlace = (run: string, of: Of, query = "", sort = ""): string =>
  placeOf(`/r/${run}/${of}`, { ...(query && { q: query }), ...(sort && { sort }) });

export const taskPlace = (run: string, task: Cell): string => `/r/${run}/t/${part(task)}`;

export interface RolloutOptions {
  row?: number | null | undefined;
  /** Whether the key alone does not name the row, as where it occurs twice. */
  isMarked?: boolean;
  q?: string;
  sort?: string;
  panel?: string;
  item?: number;
}

export const rolloutPlace = (run: string, task: Cell, rollout: Cell, options: RolloutOptions = {}): string => {
  const search = new URLSearchParams();
  // a row is named where the key does not name it
  if (options.row !== null && options.row !== undefined && (task === null || rollout === null || options.isMarked)) search.set("row", String(options.row));
  if (options.q) search.set("q", options.q);
  if (options.sort) search.set("sort", options.sort);
  if (options.panel) search.set("panel", options.panel);
  if (options.item !== undefined) search.set("item", String(options.item));
  return placeOf(`/r/${run}/t/${part(task)}/${part(rollout)}`, search);
};

/** How a rollout is named in a diff. */
export const reference = (run: string, task: Cell, rollout: Cell, row?: number | null): string =>
  task === null || rollout === null ? `${run}/-/-/${row}` : `${run}/${part(task)}/${part(rollout)}`;

export const keyText = (task: Cell, rollout: Cell, row?: number | null): string =>
  task === null || rollout === null ? `row ${row ?? "?"}` : `${task}:${rollout}`;

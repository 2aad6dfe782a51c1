// What is around every page of a run: its name, its parts, whether it is live or still read.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api";
import { bytes, count, duration, percent } from "../format";
import { type Reply, useLines, useReply, useTitle } from "../hooks";
import { ErrorBox } from "../parts/common";
import { runPlace, tablePlace, taskPlace } from "../places";
import type { Base, Live, RunPage } from "../replies";
import { visibleLine } from "../text";

export type RunPart = "overview" | "tasks" | "rollouts" | "failures" | "select" | "about" | "t";

/** What the pages of a run know of it. */
export interface RunView {
  id: string;
  name: string;
  page: Reply<RunPage>;
  live: Live | null;
  /** The version of the index: replies that rest on another are asked for again. */
  version: number | null;
}

const PARTS: readonly [RunPart, string][] = [
  ["overview", "Overview"],
  ["tasks", "Tasks"],
  ["rollouts", "Rollouts"],
  ["failures", "Failures"],
  ["select", "Select"],
  ["about", "About"],
];
/** Replies are asked for again at most this often while rows arrive. */
const RENEW_MS = 2_000;

const placeOfPart = (run: string, part: RunPart): string =>
  part === "overview" ? runPlace(run) : part === "tasks" || part === "rollouts" ? tablePlace(run, part) : `/r/${run}/${part}`;

/** `value`, which follows at most once in `RENEW_MS`. */
const useSlow = (value: number | null): number | null => {
  const [slow, setSlow] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    if (value === slow) return undefined;
    const wait = Math.max(0, last.current + RENEW_MS - Date.now());
    const timer = setTimeout(() => {
      last.current = Date.now();
      setSlow(value);
    }, wait);
    return () => clearTimeout(timer);
  }, [value, slow]);
  return slow;
};

/** Whether an index is still behind its files, or has not begun. */
const isUnread = (base: Base): boolean => !base.complete || base.total_bytes === 0;

interface LayoutProps {
  run: string;
  part: RunPart;
  task: string;
  rollout: string | undefined;
  children: (view: RunView) => ComponentChildren;
}

export const RunLayout = ({ run, part, task, rollout, children }: LayoutProps) => {
  const [live, setLive] = useState<Live | null>(null);
  const page = useReply(request("run", { run }));
  const base = live?.base ?? page.data?.base ?? null;
  // a run may grow although no collection of this machine announces it
  useLines(page.data ? request("live", { run }) : null, setLive);
  const version = useSlow(base?.version ?? null);
  const name = visibleLine(page.data?.title || page.data?.run.name || (page.error ? "no run" : "…"), 80);
  useTitle(rollout ? `${task}:${rollout} · ${name}` : task ? `task ${task} · ${name}` : name);
  return (
    <>
      <nav class="parts" aria-label="Parts of the run">
        <ol class="crumbs">
          <li>
            <a href="/">Runs</a>
          </li>
          <li>
            <a href={runPlace(run)} aria-current={part === "overview" ? "page" : undefined}>
              <bdi dir="auto">{name}</bdi>
            </a>
          </li>
          {part === "t" && (
            <li>
              {task === "-" ? (
                <a href={tablePlace(run, "rollouts")}>rows without key</a>
              ) : (
                <a href={taskPlace(run, task)} aria-current={rollout === undefined ? "page" : undefined}>
                  task {visibleLine(task, 40)}
                </a>
              )}
            </li>
          )}
          {part === "t" && rollout !== undefined && <li aria-current="page">{rollout === "-" ? "row" : `rollout ${visibleLine(rollout, 20)}`}</li>}
        </ol>
        <ul>
          {PARTS.map(([key, title]) => (
            <li key={key}>
              <a href={placeOfPart(run, key)} aria-current={key === part ? "page" : undefined}>
                {title}
              </a>
            </li>
          ))}
        </ul>
        {live && live.run.state === "running" && <LiveBadge live={live} />}
      </nav>
      <main id="main" tabIndex={-1} aria-busy={page.loading && !page.data} class={part === "t" && rollout !== undefined ? "wide" : undefined}>
        {page.error && <ErrorBox error={page.error} />}
        {base && isUnread(base) && <Indexing base={base} />}
        {!page.error && children({ id: run, name, page, live, version })}
      </main>
    </>
  );
};

const LiveBadge = ({ live }: { live: Live }) => {
  const { run } = live;
  const ended = run.scored + run.failed;
  return (
    <p class="live-badge">
      <span class="dot" aria-hidden="true" /> running, {percent(run.requested ? ended / run.requested : null)}
      {run.left_s !== null ? `, ${duration(run.left_s)} left` : run.health === "standing still" && ", standing still"}
      {run.age_s !== null && <span class="quiet"> (numbers are {duration(run.age_s)} old)</span>}
    </p>
  );
};

const Indexing = ({ base }: { base: Base }) => (
  <p class="indexing" role="status">
    <progress max={Math.max(1, base.total_bytes)} value={base.indexed_bytes} aria-label="Read so far" />
    {bytes(base.indexed_bytes)} of {bytes(base.total_bytes)} are read; numbers are of these {count(base.rows)} rows.
  </p>
);

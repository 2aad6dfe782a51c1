// `/`: every run that was found, the live ones first; two of them can be compared.

import { useState } from "preact/hooks";
import { request } from "../api";
import { count, decimal, duration, interval, moment, percent } from "../format";
import { useLines, useReply, useTitle } from "../hooks";
import { Meter } from "../parts/charts";
import { FilePath, Panel, Theirs } from "../parts/common";
import { moveRow, useRowKeys } from "../parts/table";
import { runPlace } from "../places";
import type { RunLine, RunList, ViewerSession } from "../replies";
import { placeWith, setParameters } from "../router";
import { sentence, visible } from "../text";

const STATES: Readonly<Record<RunLine["state"], string>> = { running: "running", done: "done", stopped: "stopped" };

export const RunsPage = ({ session, search }: { session: ViewerSession | null; search: URLSearchParams }) => {
  useTitle("Runs");
  useRowKeys();
  const [latest, setLatest] = useState<RunList | null>(null);
  const reply = useReply(request("runs"));
  const hasLive = (latest ?? reply.data)?.runs.some((run) => run.state === "running");
  useLines(hasLive ? request("liveRuns") : null, setLatest);
  const first = search.get("with");
  return (
    <main id="main" tabIndex={-1}>
      <h1>Runs</h1>
      {session && (
        <p class="lead">
          In{" "}
          {session.paths.map((path, at) => (
            <span key={path}>
              {at > 0 && ", "}
              <FilePath text={path} />
            </span>
          ))}
          .
        </p>
      )}
      {session && session.clusters.length > 0 && (
        <section class="clusters" aria-label="Runs over many jobs">
          <h2>Over many jobs</h2>
          <ul class="links">
            {session.clusters.map((cluster) => (
              <li key={cluster.id}>
                <a href={`/k/${cluster.id}`} data-row>
                  <Theirs text={cluster.name} />
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
      <Panel reply={reply} class="first">
        {(data) => <RunTable runs={(latest ?? data).runs} first={first} paths={session?.paths ?? []} />}
      </Panel>
    </main>
  );
};

interface RunTableProps {
  runs: readonly RunLine[];
  first: string | null;
  /** What the command was asked to show. */
  paths: readonly string[];
}

/** A path without the folder that the head of the page names. */
const shortPath = (path: string, folders: readonly string[]): string => {
  const folder = folders.filter((candidate) => path.startsWith(`${candidate}/`)).sort((a, b) => b.length - a.length)[0];
  return folder ? `…${path.slice(folder.length)}` : path;
};

const RunTable = ({ runs, first, paths }: RunTableProps) => {
  const hasModels = runs.some((run) => run.model);
  const chosen = runs.find((run) => run.id === first);
  return (
    <>
      {chosen && (
        <p class="picking" role="status">
          Choose the run to compare with <Theirs text={chosen.name} />.{" "}
          <button type="button" onClick={() => setParameters({ with: null })}>
            Not now
          </button>
        </p>
      )}
      <div class="scrolling" tabIndex={0} role="region" aria-label="Runs">
        <table class="runs">
          <thead>
            <tr>
              <th scope="col">Run</th>
              {hasModels && <th scope="col">Model</th>}
              <th scope="col">State</th>
              <th scope="col" class="n">
                Scored
              </th>
              <th scope="col" class="meter-cell">
              <span class="hidden">Coverage</span>
            </th>
              <th scope="col" class="n">
                Mean reward
              </th>
              <th scope="col" class="n">
                Failed
              </th>
              <th scope="col">Started</th>
              <th scope="col">Compare</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => (
              <RunRow key={run.id} run={run} path={shortPath(run.path, paths)} first={first} hasModels={hasModels} alone={runs.length < 2} />
            ))}
          </tbody>
        </table>
      </div>
      {runs.length > 8 && (
        <p class="quiet">
          {count(runs.length)} runs.{" "}
          <button type="button" class="bare" onClick={() => moveRow(1)}>
            Move with j and k
          </button>
        </p>
      )}
    </>
  );
};

interface RunRowProps {
  run: RunLine;
  path: string;
  first: string | null;
  hasModels: boolean;
  alone: boolean;
}

const RunRow = ({ run, path, first, hasModels, alone }: RunRowProps) => {
  const ended = run.scored + run.failed;
  return (
    <tr data-row class={run.state}>
      <th scope="row">
        <a href={runPlace(run.id)}>
          <Theirs text={run.name} limit={80} />
        </a>
        {run.environment && run.environment !== run.name && (
          <span class="quiet">
            {" "}
            <Theirs text={run.environment} limit={60} />
          </span>
        )}
        <small>
          <FilePath text={path} limit={120} />
        </small>
        {run.problem && <small class="problem">{sentence(visible(run.problem))}</small>}
      </th>
      {hasModels && (
        <td>
          <Theirs text={run.model || "–"} limit={40} />
        </td>
      )}
      <td>
        <span class={`state ${run.state}`}>{STATES[run.state]}</span>
        {run.state === "running" && (
          <small>
            {run.rate !== null && `${decimal(run.rate, 1)}/s`}
            {run.left_s !== null ? `, ${duration(run.left_s)} left` : run.health === "standing still" && ", standing still"}
            {run.age_s !== null && `, ${duration(run.age_s)} old`}
          </small>
        )}
      </td>
      <td class="n">
        {count(run.scored)}
        <small>of {count(run.requested)}</small>
      </td>
      <td class="meter-cell">
        <Meter share={run.requested ? (run.state === "running" ? ended : run.scored) / run.requested : 0} tone="plain" />
        <small class="quiet">{percent(run.requested ? run.scored / run.requested : null)}</small>
      </td>
      <td class="n">
        {decimal(run.mean_reward.value)}
        <small>{interval(run.mean_reward.low, run.mean_reward.high)}</small>
      </td>
      <td class={run.failed ? "n bad" : "n"}>{run.failed ? <a href={`/r/${run.id}/failures`}>{count(run.failed)}</a> : "0"}</td>
      <td class="nowrap">{moment(run.started_at)}</td>
      <td>
        {first === run.id ? (
          <span class="quiet">A</span>
        ) : first ? (
          <a href={`/c/${first}/${run.id}`} class="button">
            with this
          </a>
        ) : (
          <a href={placeWith({ with: run.id })} class="button" aria-disabled={alone || undefined} aria-label={`Compare ${visible(run.name)} with another run`}>
            Compare
          </a>
        )}
      </td>
    </tr>
  );
};

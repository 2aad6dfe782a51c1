// `/k/ID`: a run over many jobs, seeds by chunks. It is renewed while it is visible.

import { request } from "../api";
import { count, duration, moment } from "../format";
import { useKeys, useReply, useTitle } from "../hooks";
import { Command, FilePath, Panel, Scrolling, Theirs, WithOptions, TheirBlock } from "../parts/common";
import { useRowKeys } from "../parts/table";
import { runPlace } from "../places";
import type { ClusterPage as Cluster, UnitLine } from "../replies";
import { go } from "../router";
import { visible } from "../text";

const RENEW_MS = 15_000;

export const ClusterPage = ({ id }: { id: string }) => {
  useRowKeys();
  useKeys({ Escape: () => go("/") });
  const reply = useReply(request("cluster", { cluster: id }), { everyMs: RENEW_MS });
  return (
    <>
      <nav class="parts" aria-label="Where you are">
        <ol class="crumbs">
          <li>
            <a href="/">Runs</a>
          </li>
          <li aria-current="page">Jobs</li>
        </ol>
      </nav>
      <main id="main" tabIndex={-1}>
        <Panel reply={reply} class="first">
          {(cluster) => <Standing cluster={cluster} />}
        </Panel>
      </main>
    </>
  );
};

const Standing = ({ cluster }: { cluster: Cluster }) => (
  <>
    <Titled name={cluster.folder_name} />
    <p class="lead">
      Jobs of run <Theirs text={cluster.name} limit={60} /> in <FilePath text={cluster.output_dir} />, as of {moment(cluster.asked_at)} ({ago(cluster.asked_at)})
    </p>
    {cluster.problem && <p class="error">{visible(cluster.problem)}</p>}
    <dl class="key-figures">
      {[...cluster.counts, ...cluster.rollouts].map((line, at) => (
        <div key={at}>
          <dt>{visible(line.name)}</dt>
          <dd>
            {count(line.count)}
            <small>{at < cluster.counts.length ? "jobs" : "rollouts"}</small>
          </dd>
        </div>
      ))}
    </dl>
    {cluster.command && <Command name="The command that goes on" text={cluster.command} />}
    {cluster.command_note && <p class="quiet"><WithOptions text={visible(cluster.command_note)} /></p>}
    <Grid units={cluster.units} />
    <Scrolling label="Shards and jobs">
      <table class="units">
        <thead>
          <tr>
            <th scope="col">Shard</th>
            <th scope="col">State</th>
            <th scope="col" class="n">Scored</th>
            <th scope="col" class="n">Failed</th>
            <th scope="col" class="n">Left</th>
            <th scope="col">Job</th>
            <th scope="col" class="n">Restarts</th>
            <th scope="col">How it ended</th>
          </tr>
        </thead>
        <tbody>
          {cluster.units.map((unit) => (
            <UnitRow key={unit.name} unit={unit} />
          ))}
        </tbody>
      </table>
    </Scrolling>
  </>
);

const Titled = ({ name }: { name: string }) => {
  useTitle(`Jobs of ${visible(name)}`);
  return (
    <h1 class="small">
      <Theirs text={name} />
    </h1>
  );
};

const ago = (at: number): string => {
  const seconds = Date.now() / 1000 - at;
  return seconds < 1 ? "now" : `${duration(seconds)} ago`;
};

const SIGNS: Readonly<Record<string, string>> = { good: "✓", bad: "✕", open: "…" };

const or = (value: number | null): string => (value === null ? "–" : count(value));

const UnitRow = ({ unit }: { unit: UnitLine }) => (
  <tr data-row id={unitId(unit)} tabIndex={-1}>
    <th scope="row">
      {unit.run ? (
        <a href={runPlace(unit.run)}>
          <Theirs text={unit.label} />
        </a>
      ) : (
        <Theirs text={unit.label} />
      )}
      {unit.label !== unit.name && (
        <small>
          <Theirs text={unit.name} />
        </small>
      )}
    </th>
    <td class="nowrap">
      <span class={`standing ${unit.tone}`}>
        {SIGNS[unit.tone]} {visible(unit.standing)}
      </span>
    </td>
    <td class="n">
      {or(unit.scored)}
      {unit.expected !== null && <small>of {count(unit.expected)}</small>}
    </td>
    <td class="n">{or(unit.failed)}</td>
    <td class="n">{or(unit.left)}</td>
    <td>
      {unit.job || unit.job_id ? (
        <>
          <Theirs text={unit.job} limit={60} /> <small>{visible(unit.job_id)}</small>
        </>
      ) : (
        "–"
      )}
    </td>
    <td class="n">{count(unit.restarts)}</td>
    <td class="text">
      {unit.reason ? <Theirs text={unit.reason} limit={200} /> : unit.log.length === 0 && "–"}
      {unit.next && (
        <p class="next">
          <b>Next:</b> {visible(unit.next)}
        </p>
      )}
      {unit.log.length > 0 && (
        <details>
          <summary>Last log lines</summary>
          <TheirBlock text={unit.log.join("\n")} label={`Last log lines of ${visible(unit.name)}`} />
        </details>
      )}
    </td>
  </tr>
);

const unitId = (unit: UnitLine): string => `unit-${unit.seed}-${unit.chunk}`;

/** The numbers that are there, each once. */
const inOrder = (numbers: readonly string[]): readonly string[] => [...new Set(numbers.filter(Boolean))].sort((a, b) => Number(a) - Number(b));

/** Seeds down, chunks across: one cell per shard, with its state as a sign and a colour. */
const Grid = ({ units }: { units: readonly UnitLine[] }) => {
  const seeds = inOrder(units.map((unit) => unit.seed));
  const chunks = inOrder(units.map((unit) => unit.chunk));
  if (seeds.length * chunks.length < 2) return null;
  return (
    <Scrolling label="Seeds by chunks">
      <table class="grid-table">
        <thead>
          <tr>
            <th scope="col">Seed, by chunk</th>
            {chunks.map((chunk) => (
              <th key={chunk} scope="col">
                {visible(chunk)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {seeds.map((seed) => (
            <tr key={seed}>
              <th scope="row">{visible(seed)}</th>
              {chunks.map((chunk) => {
                const unit = units.find((candidate) => candidate.seed === seed && candidate.chunk === chunk);
                if (!unit) return <td key={chunk} />;
                const tip = `${unit.standing}: ${or(unit.scored)} of ${or(unit.expected)} scored`;
                return (
                  <td key={chunk} class={unit.tone}>
                    <a href={`#${unitId(unit)}`} data-tip={visible(tip)} aria-label={`Seed ${visible(seed)}, chunk ${visible(chunk)}: ${visible(tip)}`}>
                      {SIGNS[unit.tone]}
                    </a>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolling>
  );
};

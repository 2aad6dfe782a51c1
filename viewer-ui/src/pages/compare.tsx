// `/c/A/B`: what `palestra compare` says, then the tasks with the largest regressions first.

import { request } from "../api";
import { amount, count, decimal, moment, signed } from "../format";
import { type Reply, useKeys, useReply, useTitle } from "../hooks";
import { Meter, Strip } from "../parts/charts";
import { Command, ErrorBox, FilePath, Notes, Panel, Scrolling, Theirs } from "../parts/common";
import { QueryBox } from "../parts/query";
import { Pages, Table, useRowKeys } from "../parts/table";
import { reference, runPlace, taskPlace } from "../places";
import type { ComparePage as Comparison, ComparedTask, CompareTasks, IntervalValue, MetricLine, SideCounts } from "../replies";
import { go, placeWith, setParameters } from "../router";
import { sentence, visible } from "../text";
import { DiffView } from "./diff";

const SIZE = 100;

export const ComparePage = ({ a, b, search }: { a: string; b: string; search: URLSearchParams }) => {
  useTitle("Compare");
  useRowKeys();
  const pair = search.get("diff");
  const flags = { unmatched: search.get("unmatched"), different_rows: search.get("different_rows") };
  const reply = useReply(request("compare", { a, b }, flags));
  const [query, sort] = [search.get("q") ?? "", search.get("sort") ?? ""];
  const offset = Number(search.get("offset") ?? 0);
  const tasks = useReply(request("comparedTasks", { a, b }, { ...flags, q: query, sort, offset, limit: SIZE }));
  const worst = offset === 0 && !sort && !query ? tasks.data?.tasks[0] : undefined;
  const worstPair = worst && pairOf(worst, a, b, true);
  useKeys(pair ? {} : { Escape: () => go("/"), d: worstPair ? () => setParameters({ diff: worstPair }, { replace: false }) : undefined });
  return (
    <>
      <nav class="parts" aria-label="Where you are">
        <ol class="crumbs">
          <li>
            <a href="/">Runs</a>
          </li>
          <li aria-current="page">Compare</li>
        </ol>
        <ul>
          <li>
            <a href={`/c/${b}/${a}${flagsOf(search)}`}>Swap A and B</a>
          </li>
        </ul>
      </nav>
      <main id="main" tabIndex={-1}>
        {pair ? (
          <DiffView key={pair} search={search} />
        ) : (
          <>
            <h1 class="small">Is B better than A?</h1>
            <Panel reply={reply.error ? { ...reply, data: null } : reply} class="first">
              {(comparison) => <Said comparison={comparison} />}
            </Panel>
            {reply.error && <Ways hint={reply.error.reply.hint ?? ""} />}
            {reply.data && !reply.error && <Tasks tasks={tasks} query={query} sort={sort} a={a} b={b} />}
          </>
        )}
      </main>
    </>
  );
};

/** What the error allows: its hint names the options of the command. */
const Ways = ({ hint }: { hint: string }) => (
  <p class="links">
    {hint.includes("--allow-unmatched") && <a href={placeWith({ unmatched: "true" })}>Leave these tasks out</a>}
    {hint.includes("--allow-different-rows") && <a href={placeWith({ different_rows: "true" })}>Compare them anyway</a>}
  </p>
);

interface TasksProps {
  tasks: Reply<CompareTasks>;
  query: string;
  sort: string;
  a: string;
  b: string;
}

const Tasks = ({ tasks, query, sort, a, b }: TasksProps) => (
  <>
    <h2 class="section">Tasks, the largest regressions first</h2>
    <QueryBox query={query} error={tasks.error} place="compared tasks" />
    {tasks.error && tasks.error.status !== 400 && <ErrorBox error={tasks.error} />}
    {tasks.data?.total === 0 && <p class="quiet">No task has a score in both runs.</p>}
    {tasks.data && tasks.data.total > 0 && tasks.error?.status !== 400 && (
      <>
        <Pages offset={tasks.data.offset} size={SIZE} matches={tasks.data.matches} total={tasks.data.total} noun="tasks" />
        <Table label="Compared tasks" sort={sort} heads={HEADS}>
          {tasks.data.tasks.map((task) => (
            <TaskLine key={task.task} task={task} a={a} b={b} />
          ))}
        </Table>
      </>
    )}
  </>
);

/** What the reader allowed stays when A and B change places. */
const flagsOf = (search: URLSearchParams): string => {
  const kept = new URLSearchParams([...search].filter(([name]) => name === "unmatched" || name === "different_rows"));
  return kept.size ? `?${kept}` : "";
};

/** A p value that is not 0, however small it is. */
const chance = (value: number | null): string => (value !== null && value < 0.0005 ? "< 0.001" : decimal(value));

const HEADS = [
  { name: "task", label: "Task", sortable: true },
  { name: "prompt", label: "Prompt", class: "prompt" },
  { name: "a.rewards", label: "A" },
  { name: "a.mean", label: "Mean A", numeric: true, sortable: true },
  { name: "b.rewards", label: "B" },
  { name: "b.mean", label: "Mean B", numeric: true, sortable: true },
  { name: "delta", label: "B − A", numeric: true, sortable: true },
  { name: "diff", label: "Read" },
];

/** The pair that shows the change best: the better side's best rollout, the other side's worst. */
const pairOf = (task: ComparedTask, a: string, b: string, isWorse: boolean): string | null => {
  const end = <T,>(list: readonly T[], best: boolean): T | undefined => (best ? list[0] : list[list.length - 1]);
  const [left, right] = [end(task.a_rollouts, isWorse), end(task.b_rollouts, !isWorse)];
  if (left === undefined || right === undefined) return null;
  return `${reference(a, task.task, left)},${reference(b, task.task, right)}`;
};

const TaskLine = ({ task, a, b }: { task: ComparedTask; a: string; b: string }) => {
  const isWorse = (task.delta ?? 0) < 0;
  const pair = pairOf(task, a, b, isWorse);
  const name = visible(String(task.task));
  return (
    <tr data-row>
      <th scope="row" class="name">
        {pair ? (
          <a href={placeWith({ diff: pair })} aria-label={`${name}: both transcripts`}>
            {name}
          </a>
        ) : (
          name
        )}
      </th>
      <td class="prompt">
        <Theirs text={task.prompt} />
      </td>
      <td>
        <Strip rewards={task.a_rewards} />
      </td>
      <td class="n">{decimal(task.a)}</td>
      <td>
        <Strip rewards={task.b_rewards} />
      </td>
      <td class="n">{decimal(task.b)}</td>
      <td class={`n ${isWorse ? "bad" : ""}`}>{signed(task.delta)}</td>
      <td class="links nowrap">
        <a href={taskPlace(a, task.task)} aria-label={`A: group of task ${name}`}>
          A
        </a>
        <a href={taskPlace(b, task.task)} aria-label={`B: group of task ${name}`}>
          B
        </a>
        {pair && (
          <a href={placeWith({ diff: pair })} aria-label={`diff of task ${name}`}>
            diff
          </a>
        )}
      </td>
    </tr>
  );
};

const Said = ({ comparison }: { comparison: Comparison }) => (
  <>
    <p class={`verdict-line ${comparison.passed ? "" : "bad"}`}>
      {sentence(visible(comparison.verdict))}{" "}
      <small>
        A is <RunName side={comparison.a} other={comparison.b} />, B is <RunName side={comparison.b} other={comparison.a} />.
      </small>
    </p>
    <div class="sides">
      <Side name="A" side={comparison.a} />
      <Side name="B" side={comparison.b} />
      <section>
        <h2>{amount(comparison.tasks, "paired task")}</h2>
        <p>
          B is better in <b>{count(comparison.better)}</b>, worse in <b>{count(comparison.worse)}</b>, equal in <b>{count(comparison.equal)}</b>.
        </p>
        {comparison.unscored > 0 && <p class="quiet">{amount(comparison.unscored, "task")} without a score on one side.</p>}
      </section>
    </div>
    <Metrics metrics={comparison.metrics} />
    <MeansNote comparison={comparison} />
    <Notes texts={comparison.settings} title="Setting." />
    <Notes texts={comparison.notices} />
    {comparison.command && <Command name="The command that says the same" text={comparison.command} />}
  </>
);

/** Why the rewards differ from those of the other pages. */
const MeansNote = ({ comparison: { a, b, metrics } }: { comparison: Comparison }) => {
  const reward = metrics.find((metric) => metric.name === "reward");
  const [ofA, ofB] = [decimal(a.run.mean_reward.value), decimal(b.run.mean_reward.value)];
  if (!reward || (ofA === decimal(reward.a) && ofB === decimal(reward.b))) return null;
  return (
    <p class="quiet">
      These are means over the paired tasks, in which each task counts alike. Over rollouts, as on the pages of the runs, the mean rewards are {ofA} and {ofB}.
    </p>
  );
};

/** The name of a run, or its path where the other run has the same name. */
const RunName = ({ side, other }: { side: SideCounts; other: SideCounts }) => <Theirs text={side.run.name === other.run.name ? side.run.path : side.run.name} limit={80} />;

const Side = ({ name, side }: { name: string; side: SideCounts }) => (
  <section>
    <h2>
      {name}:{" "}
      <a href={runPlace(side.run.id)}>
        <Theirs text={side.run.name} limit={60} />
      </a>
      {side.run.model && (
        <span class="quiet">
          {" "}
          <Theirs text={side.run.model} limit={60} />
        </span>
      )}
    </h2>
    <p class="quiet">
      <FilePath text={side.run.path} />, {moment(side.run.started_at)}
    </p>
    <p>
      {count(side.scored)} of {count(side.requested)} scored, {amount(side.tasks, "task")}
      {side.failures.map((failure) => `, ${count(failure.count)} ${visible(failure.name)}`)}
      {side.unaccounted > 0 && `, ${count(side.unaccounted)} without a trace`}
    </p>
    <Meter share={side.requested ? side.scored / side.requested : 0} tone="plain" />
  </section>
);

const spread = (value: IntervalValue): string => (value.low === null || value.high === null ? "" : `${signed(value.low)} to ${signed(value.high)}`);

const Metrics = ({ metrics }: { metrics: readonly MetricLine[] }) => (
  <Scrolling label="Compared metrics">
    <table>
      <thead>
        <tr>
          <th scope="col">Metric</th>
          <th scope="col" class="n">Tasks</th>
          <th scope="col" class="n">A</th>
          <th scope="col" class="n">B</th>
          <th scope="col" class="n">B − A, 95 %</th>
          <th scope="col" class="n">p</th>
          <th scope="col" class="n">p adjusted</th>
          <th scope="col" class="n">Detectable from</th>
        </tr>
      </thead>
      <tbody>
        {metrics.map((metric) => (
          <tr key={metric.name}>
            <th scope="row">
              <Theirs text={metric.name} limit={60} />
            </th>
            <td class="n">{count(metric.tasks)}</td>
            <td class="n">{decimal(metric.a)}</td>
            <td class="n">{decimal(metric.b)}</td>
            <td class="n">
              {signed(metric.difference.value)}
              <small>{spread(metric.difference)}</small>
            </td>
            <td class="n">{chance(metric.p_value)}</td>
            <td class="n">{chance(metric.p_adjusted)}</td>
            <td class="n">{decimal(metric.minimum_detectable)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </Scrolling>
);

// `/r/ID/select`: which tasks a band of pass rates keeps, and the command that writes them.

import { useEffect, useState } from "preact/hooks";
import { request } from "../api";
import { amount, count, decimal, number, percent } from "../format";
import { useKeys, useReply } from "../hooks";
import { Labels, Meter } from "../parts/charts";
import { Command, Notes, Panel, Scrolling, WithOptions } from "../parts/common";
import { useRowKeys } from "../parts/table";
import { runPlace, taskPlace } from "../places";
import type { FigureBar, SelectPage as Selection } from "../replies";
import { go, setParameters } from "../router";
import { visible } from "../text";
import type { RunView } from "./layout";

const LOW = 0.1;
const HIGH = 0.9;
const STEPS = 100;
const SIZE = 500;
/** So many tasks are shown at once: what a change of the band does is seen above them. */
const FIRST = 50;

export const SelectPage = ({ view, search }: { view: RunView; search: URLSearchParams }) => {
  useRowKeys();
  useKeys({ Escape: () => go(runPlace(view.id)) });
  const low = Number(search.get("low") ?? LOW);
  const high = Number(search.get("high") ?? HIGH);
  const offset = Number(search.get("offset") ?? 0);
  const reply = useReply(request("select", { run: view.id }, { low, high, offset }), { version: view.version });
  return (
    <>
      <h1 class="small">Which tasks can teach this model now?</h1>
      <p class="lead">Tasks whose pass rate lies in the band are kept. At both ends a group-relative method learns nothing.</p>
      <Panel reply={reply} class="first">
        {(selection) => (
          <>
            <Band low={low} high={high} bars={selection.rates} />
            <Verdicts selection={selection} />
            <p class="quiet">Borderline: the 90 % interval of the pass rate includes an edge of the band, so more rollouts may change the verdict.</p>
            <Failures failures={selection.failures} run={view.id} />
            <Command name="The command that writes these tasks" text={selection.command} />
            <p class="quiet">
              <WithOptions text={visible(selection.command_note)} />
            </p>
            <Notes texts={selection.notices} />
            <Tasks selection={selection} run={view.id} />
            {selection.total > SIZE && <PageButtons offset={selection.offset} total={selection.total} />}
          </>
        )}
      </Panel>
    </>
  );
};

/** Half of a thumb, in rem: so far inside the slider its ends lie. */
const THUMB = 0.75;

const Band = ({ low, high, bars }: { low: number; high: number; bars: readonly FigureBar[] }) => {
  const [ends, setEnds] = useState<readonly [number, number]>([low, high]);
  useEffect(() => setEnds([low, high]), [low, high]);
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  const change = (which: 0 | 1, value: number): readonly [number, number] => {
    const next: [number, number] = [ends[0], ends[1]];
    next[which] = which === 0 ? Math.min(value, ends[1]) : Math.max(value, ends[0]);
    setEnds(next);
    return next;
  };
  const commit = () => setParameters({ low: String(ends[0]), high: String(ends[1]), offset: null });
  const slider = (which: 0 | 1, label: string) => (
    <input
      type="range"
      min="0"
      max={STEPS}
      step="1"
      value={Math.round(ends[which] * STEPS)}
      aria-label={label}
      aria-valuetext={percent(ends[which])}
      onInput={(event) => change(which, Number(event.currentTarget.value) / STEPS)}
      onChange={commit}
    />
  );
  const inset = { marginInline: `calc(${50 / Math.max(1, bars.length)}% - ${THUMB}rem)` };
  const names = bars.map((bar, at) => (bar.label.endsWith("%") ? bar.tick : `${Math.round((100 * at) / Math.max(1, bars.length - 1))} %`));
  return (
    <fieldset class="band">
      <legend>
        Pass rate from <b>{percent(ends[0])}</b> to <b>{percent(ends[1])}</b>
      </legend>
      <svg width="100%" height="90" role="img" aria-label={bars.map((bar) => `${bar.label}: ${amount(bar.count, "task")}`).join("; ")}>
        {bars.map((bar, at) => {
          const width = 100 / bars.length;
          const height = bar.count ? Math.max(2, (bar.count / most) * 84) : 0;
          const middle = bars.length > 1 ? at / (bars.length - 1) : 0.5;
          const isIn = middle >= ends[0] - 1e-9 && middle <= ends[1] + 1e-9;
          return (
            <g key={at} data-tip={`${bar.label}: ${amount(bar.count, "task")}`}>
              <rect x={`${at * width}%`} y="0" width={`${width}%`} height="90" class="hit" />
              <rect x={`${at * width + width * 0.1}%`} y={90 - height} width={`${width * 0.8}%`} height={height} class={`bar ${isIn ? "sometimes" : "quiet"}`} />
            </g>
          );
        })}
      </svg>
      {/* a thumb at a bar's rate stands below the middle of that bar */}
      <div class="ends-slider" style={inset}>
        {slider(0, "Lowest pass rate")}
        {slider(1, "Highest pass rate")}
      </div>
      <svg class="chart" width="100%" height="18" aria-hidden="true">
        <Labels texts={names} width={100 / Math.max(1, bars.length)} y={12} />
      </svg>
    </fieldset>
  );
};

/** Verdicts that are shown even of no task, as in the table of the command. */
const USUAL_VERDICTS: ReadonlySet<string> = new Set(["kept", "too easy", "too hard", "undecided"]);

const Verdicts = ({ selection }: { selection: Selection }) => (
  <dl class="key-figures">
    {selection.verdicts.filter((verdict) => verdict.count > 0 || USUAL_VERDICTS.has(verdict.name)).map((verdict) => (
      <div key={verdict.name}>
        <dt>{visible(verdict.name)}</dt>
        <dd>
          {count(verdict.count)}
          <small>{percent(selection.total ? verdict.count / selection.total : null)} of the tasks</small>
          {verdict.borderline > 0 && <small>{count(verdict.borderline)} of them borderline</small>}
        </dd>
      </div>
    ))}
    <Needed verdicts={selection.verdicts} />
  </dl>
);

/** How many more rollouts decide the borderline tasks, in the words of the command. */
const Needed = ({ verdicts }: { verdicts: Selection["verdicts"] }) => {
  const sum = (of: (verdict: Selection["verdicts"][number]) => number) => verdicts.reduce((total, verdict) => total + of(verdict), 0);
  const [borderline, onEdge] = [sum((verdict) => verdict.borderline), sum((verdict) => verdict.on_edge)];
  return (
    <div>
      <dt>more rollouts</dt>
      <dd>
        {count(sum((verdict) => verdict.more_rollouts))}
        <small>to decide {amount(borderline - onEdge, "borderline task")}</small>
        {onEdge > 0 && <small>{count(onEdge)} on an edge itself</small>}
      </dd>
    </div>
  );
};

const Failures = ({ failures, run }: { failures: Selection["failures"]; run: string }) =>
  failures.length === 0 ? null : (
    <p class="quiet">
      Not counted, neither as solved nor as failed: <a href={`/r/${run}/failures`}>{failures.map((failure) => `${visible(failure.name)} ${count(failure.count)}`).join(", ")}</a>.
    </p>
  );

const Tasks = ({ selection, run }: { selection: Selection; run: string }) => {
  const [all, showAll] = useState(false);
  const hidden = all ? 0 : Math.max(0, selection.tasks.length - FIRST);
  return (
    <>
      <TaskTable tasks={hidden ? selection.tasks.slice(0, FIRST) : selection.tasks} run={run} />
      {hidden > 0 && (
        <button type="button" onClick={() => showAll(true)}>
          Show {amount(hidden, "more task")}
        </button>
      )}
    </>
  );
};

const TaskTable = ({ tasks, run }: { tasks: Selection["tasks"]; run: string }) => (
  <Scrolling label="Tasks and their verdicts">
    <table>
      <thead>
        <tr>
          <th scope="col">Task</th>
          <th scope="col">Verdict</th>
          <th scope="col" class="n">Pass rate</th>
          <th scope="col" class="wide">
              <span class="hidden">Pass rate as a bar</span>
            </th>
          <th scope="col" class="n">Interval, 90 %</th>
          <th scope="col" class="n">Scored</th>
          <th scope="col" class="n">Learnability</th>
          <th scope="col" class="n">Tokens</th>
          <th scope="col" class="n">More rollouts</th>
        </tr>
      </thead>
      <tbody>
        {tasks.map((task) => (
          <tr key={task.task} data-row>
            <th scope="row">
              <a href={taskPlace(run, task.task)}>{visible(String(task.task))}</a>
            </th>
            <td class="nowrap">
              {visible(task.verdict)}
              {task.borderline && <small>borderline</small>}
            </td>
            <td class="n">{percent(task.pass_rate)}</td>
            <td class="wide">
              <Meter share={task.pass_rate ?? 0} tone={task.verdict === "kept" ? "sometimes" : "plain"} />
            </td>
            <td class="n">{task.low === null ? "" : `${percent(task.low)} to ${percent(task.high)}`}</td>
            <td class="n">
              {count(task.scored)}
              <small>of {count(task.requested)}</small>
            </td>
            <td class="n">{decimal(task.learnability)}</td>
            <td class="n">{number(task.output_tokens)}</td>
            <td class="n">{task.more_rollouts !== null ? count(task.more_rollouts) : task.borderline ? <small>on an edge itself</small> : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </Scrolling>
);

const PageButtons = ({ offset, total }: { offset: number; total: number }) => {
  const to = (next: number) => setParameters({ offset: next ? String(next) : null }, { replace: false });
  return (
    <nav class="pages" aria-label="Pages of the table">
      <button type="button" disabled={offset === 0} onClick={() => to(Math.max(0, offset - SIZE))}>
        Previous
      </button>
      <p role="status">
        {count(offset + 1)} to {count(Math.min(offset + SIZE, total))} of {count(total)} tasks
      </p>
      <button type="button" disabled={offset + SIZE >= total} onClick={() => to(offset + SIZE)}>
        Next
      </button>
    </nav>
  );
};

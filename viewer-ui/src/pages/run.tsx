// `/r/ID`: the report's figures, findings and charts. Every bar links to the rows that it counts.

import { useEffect } from "preact/hooks";
import { request } from "../api";
import { amount, clock, count, decimal, duration, interval, number, percent, percents } from "../format";
import { useReply } from "../hooks";
import { ColumnChart, CurveChart, Figure, LengthChart, Meter, type Share, ShareBar, type Tone } from "../parts/charts";
import { Facts, Notes, Panel, Scrolling, Theirs, WithOptions } from "../parts/common";
import { useRowKeys } from "../parts/table";
import { keyText, rolloutPlace, tablePlace } from "../places";
import type { ComponentLine, FigureBar, Figures, GroupFigures, IntervalValue, Live, OutcomeLine, RunLine, RunPage } from "../replies";
import { fullSentence, visible, visibleLine } from "../text";
import type { RunView } from "./layout";

/** How often a run without figures is asked for them again. */
const WITHOUT_MS = 3_000;

const SOLVED: readonly Tone[] = ["never", "sometimes", "always"];

export const RunOverview = ({ view }: { view: RunView }) => {
  useRowKeys();
  const { id, page, live } = view;
  const figures = useReply(request("figures", { run: id }), { version: view.version });
  const again = figures.again;
  const isRunning = live?.run.state === "running";
  useEffect(() => {
    if (live?.changed) again();
  }, [live, again]);
  // Of a run that stands still no line of the stream says that its first rows are read.
  const isWithout = figures.data !== null && !figures.data.figures;
  useEffect(() => {
    if (!isWithout) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && again(), WITHOUT_MS);
    return () => clearInterval(timer);
  }, [isWithout, again]);
  return (
    <>
      {page.data ? <Head page={page.data} /> : <h1>{view.name}</h1>}
      {isRunning && <LivePanel live={live} run={id} />}
      <Panel reply={figures} class="first">
        {(data) =>
          data.figures ? (
            <>
              {isRunning && <ReadSoFar figures={data.figures} at={data.computed_at} />}
              <FigureParts figures={data.figures} run={id} isRunning={isRunning} />
            </>
          ) : (
            <Notes texts={[data.absent || "Nothing is scored yet."]} title="No figures." />
          )
        }
      </Panel>
    </>
  );
};

/** What the figures of a run that grows rest on: they lag behind the counts of its collection. */
const ReadSoFar = ({ figures, at }: { figures: Figures; at: number }) => {
  const scored = figures.outcomes.find((line) => line.name === "scored")?.count ?? 0;
  return (
    <p class="quiet read-so-far">
      The figures below are of the {amount(scored, "scored rollout")} that were read until {clock(at)}. They follow every 10 s.
    </p>
  );
};

const Head = ({ page }: { page: RunPage }) => (
  <>
    <h1>
      <bdi dir="auto">{visibleLine(page.title || page.run.name, 200)}</bdi>
    </h1>
    <Facts pairs={page.settings} />
    {page.command && (
      <p class="command theirs" dir="auto">
        {visibleLine(page.command, 1_000)}
      </p>
    )}
    {page.clusters.length > 0 && (
      <p class="links">
        {page.clusters.map((cluster) => (
          <a key={cluster.id} href={`/k/${cluster.id}`}>
            Its jobs: <Theirs text={cluster.name} />
          </a>
        ))}
      </p>
    )}
    {page.group_problem && (
      <p class="error" role="alert">
        {visible(page.group_problem)}
      </p>
    )}
    <Notes texts={page.marks} />
    {page.problems.length > 0 && (
      <p class="quiet">
        {amount(page.problems.length, "line")} of its files cannot be read: <a href={`/r/${page.run.id}/about`}>which, and why</a>.
      </p>
    )}
  </>
);

const LivePanel = ({ live, run }: { live: Live; run: string }) => {
  const { run: line } = live;
  const ended = line.scored + line.failed;
  return (
    <section class="live first" aria-labelledby="live-title">
      <h2 id="live-title">Running now</h2>
      <HealthLine run={line} />
      <dl class="key-figures">
        <Key name="Ended" value={percent(line.requested ? ended / line.requested : null)} note={`${count(ended)} of ${count(line.requested)}`} />
        <Key name="Rate" value={line.rate === null ? "–" : `${decimal(line.rate, line.rate < 10 ? 2 : 0)}/s`} note="rollouts that ended, last minute" />
        <Key name="Time left" value={duration(line.left_s)} note={line.left_s !== null ? "at this rate" : line.health === "standing still" ? "nothing ends now" : "too few have ended to say"} />
        <Key name="In flight" value={line.in_flight === null ? "–" : count(line.in_flight)} note="rollouts" />
      </dl>
      <div class="share-line">
        <ShareBar
          parts={[
            { tone: "plain", share: line.requested ? line.scored / line.requested : 0, tip: `${count(line.scored)} scored` },
            { tone: "never", share: line.requested ? line.failed / line.requested : 0, tip: `${count(line.failed)} failed` },
            { tone: "quiet", share: line.requested ? (line.in_flight ?? 0) / line.requested : 0, tip: `${count(line.in_flight ?? 0)} in flight` },
          ]}
        />
      </div>
      {live.phases.length > 0 && (
        <Scrolling label="What rollouts in flight wait for">
          <table>
            <thead>
              <tr>
                <th scope="col">Phase</th>
                <th scope="col">Awaits</th>
                <th scope="col" class="n">
                  Rollouts
                </th>
                <th scope="col" class="n">
                  Oldest wait
                </th>
              </tr>
            </thead>
            <tbody>
              {live.phases.map((phase) => (
                <tr key={`${phase.phase} ${phase.awaiting}`}>
                  <th scope="row">{visible(phase.phase)}</th>
                  <td>
                    <Theirs text={phase.awaiting || "–"} />
                  </td>
                  <td class="n">{count(phase.count)}</td>
                  <td class="n">{duration(phase.oldest_s)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolling>
      )}
      {live.oldest.length > 0 && (
        <details>
          <summary>The slowest: {amount(live.oldest.length, "rollout")}</summary>
          <Scrolling label="The oldest rollouts in flight">
            <table>
              <thead>
                <tr>
                  <th scope="col">Rollout</th>
                  <th scope="col">Phase</th>
                  <th scope="col">Awaits</th>
                  <th scope="col" class="n">
                    Age
                  </th>
                </tr>
              </thead>
              <tbody>
                {live.oldest.map((flight) => (
                  <tr key={`${flight.task}:${flight.rollout}`}>
                    <th scope="row">
                      <a href={rolloutPlace(run, flight.task, flight.rollout)}>{keyText(flight.task, flight.rollout)}</a>
                      {flight.attempt > 1 && <small>attempt {flight.attempt}</small>}
                    </th>
                    <td>{visible(flight.phase)}</td>
                    <td>
                      <Theirs text={flight.awaiting || "–"} />
                    </td>
                    <td class="n">
                      {duration(flight.age_s)}
                      {isShorter(flight.awaiting_s, flight.age_s) && <small>waits {duration(flight.awaiting_s)}</small>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scrolling>
        </details>
      )}
      {live.last_failure && (
        <p>
          Last failure: <Theirs text={live.last_failure} limit={400} />
        </p>
      )}
    </section>
  );
};

/** Whether a wait is worth a number beside the age: what it awaits now is not what it awaited all the time. */
const isShorter = (waitS: number, ageS: number): boolean => ageS >= 1 && waitS < 0.9 * ageS;

const HEALTH_TONES: Readonly<Record<string, string>> = { slow: "warning", failing: "error", "standing still": "error" };

/** How the collection goes, and why, in one line. */
const HealthLine = ({ run }: { run: RunLine }) =>
  run.health ? (
    <p class="health" role="status">
      <span class={`severity ${HEALTH_TONES[run.health] ?? "note"}`}>{run.health}</span> {fullSentence(visible(run.health_text))}
      {run.health_advice && (
        <>
          {" "}
          <WithOptions text={visible(run.health_advice)} />
        </>
      )}
    </p>
  ) : null;

const Key = ({ name, value, note }: { name: string; value: string; note: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>
      {value}
      <small>{note}</small>
    </dd>
  </div>
);

const FigureParts = ({ figures, run, isRunning }: { figures: Figures; run: string; isRunning: boolean }) => (
  <>
    <dl class="key-figures">
      {figures.key_figures.map((figure) => (
        <Key key={figure.name} name={figure.name} value={figure.value} note={figure.note} />
      ))}
    </dl>
    <Solved figures={figures} run={run} />
    <ul class="findings">
      {/* a collection that goes on is not resumed */}
      {figures.findings.filter((remark) => !isRunning || !/(--|\+)resume/.test(remark.text)).map((remark) => (
        <li key={remark.head}>
          <b>{visible(remark.head)} </b>
          <WithOptions text={visible(remark.text)} />
          {remark.query && (
            <>
              {" "}
              <a href={tablePlace(run, "rollouts", remark.query)}>List them</a>
            </>
          )}
        </li>
      ))}
    </ul>
    <Notes texts={figures.notices} />
    <h2 class="section">What the rewards say</h2>
    <div class="figures">
      <Charts figures={figures} run={run} />
    </div>
    <h2 class="section">How the requests ended</h2>
    <Outcomes lines={figures.outcomes} run={run} isRunning={isRunning} />
    {figures.groups.length > 1 && (
      <>
        <h2 class="section">By {visible(figures.grouped_by || "agent")}</h2>
        <Groups groups={figures.groups} run={run} binary={figures.binary} title={figures.grouped_by || "agent"} />
      </>
    )}
    {figures.components.length > 0 && (
      <>
        <h2 class="section">Parts of the reward</h2>
        <Components lines={figures.components} />
      </>
    )}
  </>
);

const Solved = ({ figures, run }: { figures: Figures; run: string }) => {
  const total = figures.solved.reduce((sum, line) => sum + line.count, 0);
  if (!total) return null;
  const parts: Share[] = figures.solved.map((line, at) => ({
    tone: SOLVED[at] ?? "plain",
    share: line.count / total,
    tip: `${line.name} solved: ${amount(line.count, "task")} (${percent(line.count / total)})`,
  }));
  return (
    <div class="split">
      <ShareBar parts={parts} />
      <ul class="legend">
        {figures.solved.map((line, at) => (
          <li key={line.name}>
            <span class={`key ${SOLVED[at]}`} />
            <a href={tablePlace(run, "tasks", `solved:${line.name}`)}>
              <b>{percent(line.count / total)}</b> {line.name} solved
            </a>{" "}
            <span class="quiet">{amount(line.count, "task")}</span>
          </li>
        ))}
      </ul>
    </div>
  );
};

const barRows = (bars: readonly FigureBar[]): string[][] => {
  const total = bars.reduce((sum, bar) => sum + bar.count, 0);
  return bars.map((bar) => [bar.label, count(bar.count), percent(total ? bar.count / total : null)]);
};

const meanText = (mean: IntervalValue, binary: boolean): string => (binary ? percent(mean.value) : decimal(mean.value));

const rangeText = ({ low, high }: IntervalValue, binary: boolean): string =>
  low === null || high === null ? "-" : binary ? percents(low, high) : interval(low, high);

const Charts = ({ figures, run }: { figures: Figures; run: string }) => {
  const link = (bar: FigureBar) => (bar.query ? tablePlace(run, bar.of, bar.query) : null);
  const last = figures.pass_rates.length - 1;
  const isByRate = Boolean(figures.pass_rates[last]?.label.endsWith("%"));
  const [first, final] = [figures.curve[0], figures.curve[figures.curve.length - 1]];
  const fewer = first && final && final.tasks < first.tasks ? ` Only ${count(final.tasks)} of ${amount(first.tasks, "task")} have ${final.k} scored rollouts.` : "";
  return (
    <>
      {figures.pass_rates.length > 0 && (
        <Figure title="Pass rate of tasks" reading={`Tasks at both ends teach a group-relative method nothing. Choose a bar to list its tasks.${isByRate ? " Not all have as many scored rollouts, or they have many: bars are rates." : ""}`} heads={["Pass rate", "Tasks", "Share"]} rows={barRows(figures.pass_rates)}>
          <ColumnChart
            bars={figures.pass_rates}
            unit="task"
            title={isByRate ? "pass rate up to, percent" : `rollouts solved, of ${last}`}
            label="Tasks by pass rate"
            link={link}
            tone={(_, at) => (at === 0 ? "never" : at === last ? "always" : "sometimes")}
          />
        </Figure>
      )}
      {figures.curve.length > 1 && (
        <Figure
          title={figures.binary ? "pass@k and pass^k" : "Best of k"}
          reading={`How much the best of k rollouts gains over one. Whiskers: 95 %.${fewer}`}
          heads={["k", figures.binary ? "pass@k" : "best of k", "95 %", ...(figures.binary ? ["pass^k"] : []), "Tasks"]}
          rows={figures.curve.map((point) => [
            String(point.k),
            meanText(point.best, figures.binary),
            rangeText(point.best, figures.binary),
            ...(figures.binary ? [percent(point.worst)] : []),
            count(point.tasks),
          ])}
        >
          <CurveChart points={figures.curve} binary={figures.binary} />
        </Figure>
      )}
      {figures.rewards.length > 0 && (
        <Figure title="Rewards of rollouts" reading="Choose a bar to read its rollouts." heads={["Reward", "Rollouts", "Share"]} rows={barRows(figures.rewards)}>
          <ColumnChart bars={figures.rewards} unit="rollout" title="reward" label="Rollouts by reward" link={link} tone={() => "plain"} />
        </Figure>
      )}
      {figures.lengths.length > 1 && (
        <Figure
          title="Reward against length"
          reading="Grey bars: how many rollouts are of that length. Choose a point to read them."
          heads={["Output tokens", "Rollouts", "Mean reward", "95 %"]}
          rows={figures.lengths.map((bin) => [
            `${count(bin.low)} to ${count(bin.high)}`,
            count(bin.rollouts),
            meanText(bin.reward, figures.binary),
            rangeText(bin.reward, figures.binary),
          ])}
        >
          <LengthChart bins={figures.lengths} binary={figures.binary} link={(bin) => (bin.query ? tablePlace(run, "rollouts", bin.query) : null)} />
        </Figure>
      )}
    </>
  );
};

/** Rollouts without a trace; while their run goes on, they are only not ended yet. */
const NO_TRACE = "no trace";

const Outcomes = ({ lines, run, isRunning }: { lines: readonly OutcomeLine[]; run: string; isRunning: boolean }) => (
  <Scrolling label="How the requests ended">
    <table id="outcomes">
      <thead>
        <tr>
          <th scope="col">Outcome</th>
          <th scope="col" class="wide">
              <span class="hidden">Share as a bar</span>
            </th>
          <th scope="col" class="n">
            Rollouts
          </th>
          <th scope="col" class="n">
            Share
          </th>
          <th scope="col">Meaning</th>
        </tr>
      </thead>
      <tbody>
        {lines.map((line) => {
          const isAhead = isRunning && line.name === NO_TRACE;
          const name = isAhead ? "not ended yet" : line.name;
          return (
          <tr key={line.name} data-row>
            <th scope="row">{line.query && line.count ? <a href={tablePlace(run, "rollouts", line.query)}>{name}</a> : name}</th>
            <td class="wide">
              <Meter share={line.share} tone={line.name === "scored" ? "plain" : isAhead ? "quiet" : "never"} />
            </td>
            <td class="n">{count(line.count)}</td>
            <td class="n">{percent(line.share)}</td>
            <td class="quiet">{isAhead ? "in flight, or not started" : visible(line.meaning)}</td>
          </tr>
          );
        })}
      </tbody>
    </table>
  </Scrolling>
);

interface GroupsProps {
  groups: readonly GroupFigures[];
  run: string;
  binary: boolean;
  title: string;
}

const Groups = ({ groups, run, binary, title }: GroupsProps) => {
  const mostK = Math.max(1, ...groups.map((group) => group.best_k));
  const rate = (value: number | null) => (binary ? percent(value) : decimal(value));
  return (
    <Scrolling label={`By ${title}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{visible(title)}</th>
            <th scope="col" class="n">Tasks</th>
            <th scope="col" class="n">Scored</th>
            <th scope="col" class="n">Mean reward</th>
            <th scope="col" class="n">pass@1</th>
            {mostK > 1 && <th scope="col" class="n">pass@{mostK}</th>}
            <th scope="col" class="wide">
              <span class="hidden">Never, sometimes, always solved</span>
            </th>
            <th scope="col" class="n">Tokens</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr key={group.name} data-row>
              <th scope="row">
                {group.query ? (
                  <a href={tablePlace(run, "rollouts", group.query)}>
                    <Theirs text={group.name} limit={60} />
                  </a>
                ) : (
                  <Theirs text={group.name} limit={60} />
                )}
              </th>
              <td class="n">{count(group.tasks)}</td>
              <td class="n">{percent(group.requested ? group.scored / group.requested : null)}</td>
              <td class="n">
                {decimal(group.mean_reward?.value)}
                <small>{interval(group.mean_reward?.low, group.mean_reward?.high)}</small>
              </td>
              <td class="n">{rate(group.pass_at_1)}</td>
              {mostK > 1 && (
                <td class="n">
                  {group.best_k === mostK ? rate(group.best) : "–"}
                  {group.best_k === mostK && group.best_tasks < group.scored_tasks && (
                    <small>
                      over {count(group.best_tasks)} of {amount(group.scored_tasks, "task")}
                    </small>
                  )}
                </td>
              )}
              <td class="wide">
                <ShareBar
                  parts={[group.never, group.sometimes, group.always].map((share, at) => ({
                    tone: SOLVED[at] ?? "plain",
                    share: share ?? 0,
                    tip: `${SOLVED[at]} solved: ${percent(share)}`,
                  }))}
                />
              </td>
              <td class="n">{number(group.output_tokens)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolling>
  );
};

const Components = ({ lines }: { lines: readonly ComponentLine[] }) => (
  <Scrolling label="Parts of the reward">
    <table>
      <thead>
        <tr>
          <th scope="col">Component</th>
          <th scope="col" class="n">Rollouts</th>
          <th scope="col" class="n">Mean</th>
          <th scope="col" class="n">Least</th>
          <th scope="col" class="n">Most</th>
        </tr>
      </thead>
      <tbody>
        {lines.map((line) => (
          <tr key={line.name}>
            <th scope="row">
              <Theirs text={line.name} limit={60} />
            </th>
            <td class="n">{count(line.rollouts)}</td>
            <td class="n">
              {decimal(line.mean.value)}
              <small>{interval(line.mean.low, line.mean.high)}</small>
            </td>
            <td class="n">{number(line.least)}</td>
            <td class="n">{number(line.most)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </Scrolling>
);

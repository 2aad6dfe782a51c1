// `/r/ID/t/TASK`: the group of a task side by side, the highest reward first.

import { request } from "../api";
import { amount, count, decimal, number, percent } from "../format";
import { useKeys, useReply } from "../hooks";
import { Meter, Strip } from "../parts/charts";
import { Panel, Theirs, TheirBlock } from "../parts/common";
import { useRowKeys } from "../parts/table";
import { reference, rolloutPlace, tablePlace, taskPlace } from "../places";
import { equals } from "../query";
import type { FirstDifference, GroupMember, TaskGroup } from "../replies";
import { go, placeWith, setParameters } from "../router";
import { visible } from "../text";
import type { RunView } from "./layout";
import { DiffView } from "./diff";

export const TaskPage = ({ view, task, search }: { view: RunView; task: string; search: URLSearchParams }) => {
  const reply = useReply(request("task", { run: view.id, task }), { version: view.version });
  const pair = search.get("diff");
  if (pair) return <DiffView key={pair} search={search} />;
  return (
    <Panel reply={reply} class="first">
      {(group) => <Group key={String(group.task)} group={group} run={view.id} picked={search.get("pick")} />}
    </Panel>
  );
};

const placeOfDiff = (run: string, task: TaskGroup["task"], a: GroupMember, b: GroupMember): string =>
  placeWith({ diff: `${reference(run, task, a.rollout, a.row)},${reference(run, task, b.rollout, b.row)}`, pick: null });

const Group = ({ group, run, picked }: { group: TaskGroup; run: string; picked: string | null }) => {
  useRowKeys();
  const scored = group.members.filter((member) => member.reward !== null);
  const [best, worst] = [scored[0], scored[scored.length - 1]];
  const diff = best && worst && best !== worst ? placeOfDiff(run, group.task, best, worst) : null;
  const to = (task: TaskGroup["previous"]) => (task === null ? undefined : () => go(taskPlace(run, task)));
  useKeys({ "[": to(group.previous), "]": to(group.next), d: diff ? () => go(diff) : undefined, Escape: () => go(tablePlace(run, "tasks")) });
  return (
    <>
      <div class="title-line">
        <h1 class="small">
          Task <bdi dir="auto">{visible(String(group.task))}</bdi>
        </h1>
        <Strip rewards={scored.map((member) => member.reward ?? 0)} height={22} />
        <nav class="neighbours" aria-label="Tasks before and after">
          <Neighbour run={run} task={group.previous} text="Previous" />
          <Neighbour run={run} task={group.next} text="Next" />
        </nav>
      </div>
      <p class="facts">
        <span>
          <b>{count(group.solved)}</b> of {count(group.scored)} solved
        </span>
        <span>
          pass rate <b>{percent(group.pass_rate)}</b>
        </span>
        <span>
          mean <b>{decimal(group.mean)}</b>, standard deviation {decimal(group.std)}
        </span>
        <span>
          learnability <b>{decimal(group.learnability)}</b>
        </span>
        {group.scored < group.rollouts && <span>{amount(group.rollouts - group.scored, "rollout")} without a score</span>}
      </p>
      <details class="fold" open={group.prompt.length < 600}>
        <summary>Prompt</summary>
        <TheirBlock text={group.prompt} label="Prompt" />
      </details>
      <div class="columns">
        {group.difference && <Difference difference={group.difference} diff={diff} total={group.members.length} />}
        {(group.answers.length > 0 || group.expected) && <Answers group={group} run={run} />}
      </div>
      <h2 class="section">Rollouts, the highest reward first</h2>
      {group.rollouts > group.members.length && (
        <p class="quiet">
          {group.members.length} of {count(group.rollouts)} are shown. <a href={tablePlace(run, "rollouts", equals("task", String(group.task)))}>All of them</a>
        </p>
      )}
      <ol class="members">
        {group.members.map((member) => (
          <Member key={member.row} member={member} group={group} run={run} picked={picked} best={best} tone={toneOf(member, best, worst)} />
        ))}
      </ol>
    </>
  );
};

/** The variant of rollouts whose output ended before. */
const NOTHING = "nothing";

const toneOf = (member: GroupMember, best: GroupMember | undefined, worst: GroupMember | undefined): string => {
  if (!best || !worst || best.reward === worst.reward) return "";
  return member.reward === best.reward ? "best" : member.reward === worst.reward ? "worst" : "";
};

const Neighbour = ({ run, task, text }: { run: string; task: TaskGroup["previous"]; text: string }) =>
  task === null ? (
    <span class="quiet">{text}</span>
  ) : (
    <a href={taskPlace(run, task)} aria-label={`${text} task: ${visible(String(task))}`}>
      {text}
    </a>
  );

const Difference = ({ difference, diff, total }: { difference: FirstDifference; diff: string | null; total: number }) => (
  <section>
    <h2>Where they first differ</h2>
    <p class="reading">In item {difference.item + 1} of the output:</p>
    <table>
      <thead>
        <tr>
          <th scope="col">Goes on with</th>
          <th scope="col" class="wide">
            <span class="hidden">Share as a bar</span>
          </th>
          <th scope="col" class="n">
            Rollouts
          </th>
          <th scope="col" class="n">
            Mean reward
          </th>
        </tr>
      </thead>
      <tbody>
        {difference.variants.map((variant) => (
          <tr key={variant.name}>
            <th scope="row">
              {variant.name === NOTHING ? "no output there" : <Theirs text={variant.name} limit={60} />}
            </th>
            <td class="wide">
              <Meter share={variant.count / total} tone="plain" />
            </td>
            <td class="n">{count(variant.count)}</td>
            <td class="n">{decimal(variant.mean_reward)}</td>
          </tr>
        ))}
      </tbody>
    </table>
    {diff && (
      <p>
        <a href={diff} class="button">
          Best against worst
        </a>
      </p>
    )}
  </section>
);

const Answers = ({ group, run }: { group: TaskGroup; run: string }) => (
  <section>
    <h2>Answers</h2>
    {group.expected && (
      <p class="reading">
        Expected: <Theirs text={group.expected} limit={90} />
      </p>
    )}
    <table>
      <thead>
        <tr>
          <th scope="col">Answer</th>
          <th scope="col" class="n">
            Rollouts
          </th>
          <th scope="col" class="n">
            Mean reward
          </th>
        </tr>
      </thead>
      <tbody>
        {group.answers.map((answer) => (
          <tr key={answer.answer}>
            <th scope="row" class="text">
              {answer.rollouts[0] === undefined ? (
                <Theirs text={answer.answer} limit={90} />
              ) : (
                <a href={rolloutPlace(run, group.task, answer.rollouts[0])}>
                  <Theirs text={answer.answer || "(empty)"} limit={90} />
                </a>
              )}
            </th>
            <td class="n">{count(answer.count)}</td>
            <td class="n">{decimal(answer.mean_reward)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </section>
);

interface MemberProps {
  member: GroupMember;
  group: TaskGroup;
  run: string;
  picked: string | null;
  best: GroupMember | undefined;
  tone: string;
}

const Member = ({ member, group, run, picked, best, tone }: MemberProps) => {
  const other = group.members.find((candidate) => String(candidate.row) === picked);
  const components = Object.entries(member.components);
  const name = member.rollout === null ? `row ${member.row}` : `rollout ${member.rollout}`;
  return (
    <li class={`member ${member.reward === null ? "failed" : tone}`} data-row>
      <h3>
        <a href={rolloutPlace(run, group.task, member.rollout, { row: member.row, isMarked: member.marks.length > 0 })}>{name}</a>
        <b>{member.reward === null ? visible(member.outcome) : decimal(member.reward)}</b>
      </h3>
      <p class="quiet">
        {member.reward !== null && member.outcome !== "scored" && `${visible(member.outcome)}, `}
        {member.tokens_out !== null && `${count(member.tokens_out)} tokens`}
        {member.turns !== null && `, ${amount(member.turns, "turn")}`}
        {member.marks.map((mark) => `, ${visible(mark)}`)}
      </p>
      {components.length > 0 && (
        <dl class="components">
          {components.map(([component, value]) => (
            <div key={component}>
              <dt>
                <Theirs text={component} limit={40} />
              </dt>
              <dd>{number(value)}</dd>
            </div>
          ))}
        </dl>
      )}
      {member.answer ? (
        <pre class="theirs answer" dir="auto" tabIndex={0} role="region" aria-label={`End of the answer of ${name}`}>
          {visible(member.answer)}
        </pre>
      ) : (
        <p class="quiet">no answer</p>
      )}
      <div class="links">
      {picked === String(member.row) ? (
        <button type="button" aria-pressed="true" onClick={() => setParameters({ pick: null })}>
          Picked
        </button>
      ) : other ? (
        <a class="button" href={placeOfDiff(run, group.task, other, member)}>
          Difference to {other.rollout === null ? `row ${other.row}` : other.rollout}
        </a>
      ) : (
        <button type="button" aria-label={`Pick for diff: ${name}`} onClick={() => setParameters({ pick: String(member.row) })}>
          Pick for diff
        </button>
      )}
      {picked === null && best && best !== member && (
        <a class="button" href={placeOfDiff(run, group.task, best, member)} aria-label={`Against the best: ${name}`}>
          Against the best
        </a>
      )}
      </div>
    </li>
  );
};

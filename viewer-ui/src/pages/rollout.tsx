// `/r/ID/t/TASK/ROLLOUT`: one rollout. Its conversation, and beside it what the verifier says.

import { useMemo, useRef, useState } from "preact/hooks";
import { download, request } from "../api";
import { amount, bytes, count, decimal, duration, number } from "../format";
import { useKeys, useReply } from "../hooks";
import { Command, ErrorBox, Notes, Panel, Theirs, TheirBlock, WithOptions } from "../parts/common";
import { type Cell, keyText, reference, rolloutPlace, type RolloutOptions, tablePlace, taskPlace } from "../places";
import type { Attempt, GroupMember, RewardPanel, RolloutPage as Head, TranscriptHit } from "../replies";
import { go, placeWith, setParameters } from "../router";
import { sentence, visible, visibleLine } from "../text";
import { Conversation, type Spot } from "./conversation";
import { DiffView } from "./diff";
import type { RunView } from "./layout";
import { RawView, TreeView } from "./raw";
import { Tokens } from "./tokens";

const PANELS: readonly [string, string][] = [
  ["", "Conversation"],
  ["tokens", "Tokens"],
  ["raw", "Raw"],
  ["tree", "JSON"],
];

interface RolloutProps {
  view: RunView;
  task: string;
  rollout: string;
  search: URLSearchParams;
}

export const RolloutPage = ({ view, task, rollout, search }: RolloutProps) => {
  const row = search.get("row");
  const spot = useMemo<Spot>(() => ({ places: { run: view.id, task, rollout }, row }), [view.id, task, rollout, row]);
  const [q, sort] = [search.get("q") ?? "", search.get("sort") ?? ""];
  const head = useReply(request("rollout", spot.places, { row, q, sort }), { version: view.version });
  const group = useReply(task === "-" || !head.data ? null : request("task", { run: view.id, task }));
  const panel = search.get("panel") ?? "";
  const pair = search.get("diff");
  const members = group.data?.members ?? [];
  const options = { q, sort, ...(panel && { panel }) };
  useRolloutKeys({ view, task, rollout, head: head.data, members, options, panel, isOff: pair !== null });
  if (pair) return <DiffView key={pair} search={search} />;
  return (
    <>
      <Panel reply={head} class="rollout-head">
        {(data) => <Title head={data} run={view.id} options={options} members={members} />}
      </Panel>
      <nav class="tabs" aria-label="Views of the rollout">
        {PANELS.map(([name, title]) => (
          <a key={name} href={placeWith({ panel: name || null })} aria-current={panel === name ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {head.data && panel === "tokens" && <Tokens spot={spot} token={search.get("token")} />}
      {head.data && panel === "raw" && <RawView spot={spot} />}
      {head.data && panel === "tree" && <TreeView spot={spot} />}
      {head.data && panel === "" && <Reading spot={spot} search={search} head={head.data} />}
    </>
  );
};

interface KeyContext {
  view: RunView;
  task: string;
  rollout: string;
  head: Head | null;
  members: readonly GroupMember[];
  options: RolloutOptions;
  panel: string;
  isOff: boolean;
}

const neighbourPlace = (run: string, key: Cell[] | null | undefined, options: RolloutOptions): string | null =>
  key ? rolloutPlace(run, key[0] ?? null, key[1] ?? null, options) : null;

/** The rollout to compare with: the best of the others, or the worst when this one is the best. */
const counterpart = (members: readonly GroupMember[], rollout: string): GroupMember | null => {
  const scored = members.filter((member) => member.reward !== null);
  const others = scored.filter((member) => String(member.rollout) !== rollout);
  const isBest = String(scored[0]?.rollout) === rollout;
  return (isBest ? others[others.length - 1] : others[0]) ?? null;
};

const diffPlace = (run: string, task: string, rollout: string, other: GroupMember): string =>
  placeWith({ diff: `${reference(run, task, rollout)},${reference(run, task, other.rollout, other.row)}` });

const useRolloutKeys = ({ view, task, rollout, head, members, options, panel, isOff }: KeyContext): void => {
  const to = (place: string | null) => (place ? () => go(place) : undefined);
  const group = task === "-" ? null : taskPlace(view.id, task);
  const other = counterpart(members, rollout);
  const toggle = (name: string) => setParameters({ panel: panel === name ? null : name }, { replace: false });
  const up = options.q || options.sort || !group ? tablePlace(view.id, "rollouts", options.q, options.sort) : group;
  useKeys(
    isOff
      ? {}
      : {
          "[": to(neighbourPlace(view.id, head?.previous, options)),
          "]": to(neighbourPlace(view.id, head?.next, options)),
          g: to(group),
          d: to(other && diffPlace(view.id, task, rollout, other)),
          t: () => toggle("tokens"),
          r: () => toggle("raw"),
          Escape: () => (panel ? setParameters({ panel: null }, { replace: false }) : go(up)),
        },
  );
};

interface TitleProps {
  head: Head;
  run: string;
  options: RolloutOptions;
  members: readonly GroupMember[];
}

const Title = ({ head, run, options, members }: TitleProps) => {
  const rollout = String(head.rollout);
  const other = counterpart(members, rollout);
  return (
    <>
      <div class="title-line">
        <h1 class="small">{visible(keyText(head.task, head.rollout, head.row))}</h1>
        <p class="verdict">
          {head.reward === null ? (
            <b class="bad">{visible(head.outcome)}</b>
          ) : (
            <>
              reward <b>{decimal(head.reward)}</b>
            </>
          )}
          {head.truncated && <span class="problem">cut off at a limit</span>}
        </p>
        <nav class="neighbours" aria-label="Rollouts before and after, in the table">
          <Step place={neighbourPlace(run, head.previous, options)} text="Previous" />
          <Step place={neighbourPlace(run, head.next, options)} text="Next" />
        </nav>
      </div>
      <p class="facts">
        {head.agent && (
          <span>
            agent <Theirs text={head.agent} limit={60} />
          </span>
        )}
        {head.model && (
          <span>
            model <Theirs text={head.model} limit={60} />
          </span>
        )}
        <span>
          {amount(head.prompt_items, "item")} of prompt, {count(head.output_items)} of output
        </span>
        <span>{bytes(head.bytes)}</span>
        {head.source === "failed" && <span class="problem">from a failed attempt: no reward</span>}
        {head.source === "inputs" && <span class="problem">only the inputs are there</span>}
        {head.marks.map((mark) => (
          <span key={mark} class="problem">
            {visible(mark)}
          </span>
        ))}
      </p>
      {members.length > 1 && (
        <nav class="siblings" aria-label="Rollouts of this task">
          <span class="quiet">Rollouts and rewards of the group:</span>
          {members.map((member) => (
            <a
              key={member.row}
              href={rolloutPlace(run, head.task, member.rollout, { row: member.row, ...(options.panel && { panel: options.panel }) })}
              aria-current={String(member.rollout) === rollout ? "page" : undefined}
              class={member.reward === null ? "bad" : undefined}
            >
              {member.rollout ?? `row ${member.row}`}: <b>{member.reward === null ? "–" : number(member.reward)}</b>
            </a>
          ))}
          <a href={taskPlace(run, head.task)}>side by side</a>
          {other && <a href={diffPlace(run, String(head.task), rollout, other)}>diff to {other.rollout ?? `row ${other.row}`}</a>}
        </nav>
      )}
    </>
  );
};

const Step = ({ place, text }: { place: string | null; text: string }) =>
  place ? (
    <a href={place} aria-label={`${text} rollout`}>
      {text}
    </a>
  ) : (
    <span class="quiet">{text}</span>
  );

const Reading = ({ spot, search, head }: { spot: Spot; search: URLSearchParams; head: Head }) => {
  const text = search.get("find") ?? "";
  const find = useReply(text ? request("findInTranscript", spot.places, { row: spot.row, text }) : null);
  const hits = text ? (find.data?.hits ?? []) : [];
  const at = Number(search.get("hit") ?? 0);
  const hit = hits[at] ?? null;
  const item = search.get("item");
  const target = hit ? hit.at : item === null ? null : Number(item);
  const markdown = search.get("md") === "1";
  return (
    <div class="reading-columns">
      <aside aria-label="Reward and evidence">
        <Reward spot={spot} />
        {head.attempts > 0 && <AttemptList spot={spot} />}
        <Rest spot={spot} name={keyText(head.task, head.rollout, head.row)} />
      </aside>
      <div class="conversation-part">
        <div class="conversation-tools">
          <Find text={text} hits={hits} at={at} more={find.data?.more ?? false} loading={find.loading} />
          <button type="button" aria-pressed={markdown} onClick={() => setParameters({ md: markdown ? null : "1" })}>
            Markdown
          </button>
        </div>
        {find.error && <ErrorBox error={find.error} />}
        <Conversation spot={spot} target={target} markdown={markdown} hits={hits} hit={hit} />
      </div>
    </div>
  );
};

/** Times and commands. On narrow screens they are folded, so that the conversation is near. */
const Rest = ({ spot, name }: { spot: Spot; name: string }) => {
  const [opened, setOpened] = useState(() => matchMedia("(min-width: 52rem)").matches);
  return (
    <details class="rest" open={opened} onToggle={(event) => setOpened(event.currentTarget.open)}>
      <summary>Times and commands</summary>
      {opened && (
        <>
          <TimeList spot={spot} />
          <CommandList spot={spot} name={name} />
        </>
      )}
    </details>
  );
};

interface FindProps {
  text: string;
  hits: readonly TranscriptHit[];
  at: number;
  more: boolean;
  loading: boolean;
}

const Find = ({ text, hits, at, more, loading }: FindProps) => {
  const input = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState(text);
  useKeys({ "/": () => input.current?.select() });
  const to = (next: number) => setParameters({ hit: String((next + hits.length) % hits.length) });
  return (
    <form
      class="find"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (typed === text && hits.length > 0) to(at + 1);
        else setParameters({ find: typed || null, hit: null, item: null });
      }}
    >
      <input
        ref={input}
        type="search"
        aria-label="Find in this transcript"
        placeholder="find in this transcript"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      {text && (
        <>
          <span role="status">{loading ? "…" : hits.length === 0 ? "not there" : `${at + 1} of ${count(hits.length)}${more ? "+" : ""}`}</span>
          <button type="button" disabled={hits.length < 2} aria-label="Previous place" onClick={() => to(at - 1)}>
            ↑
          </button>
          <button type="button" disabled={hits.length < 2} aria-label="Next place" onClick={() => to(at + 1)}>
            ↓
          </button>
        </>
      )}
    </form>
  );
};

const Reward = ({ spot }: { spot: Spot }) => {
  const reply = useReply(request("reward", spot.places, { row: spot.row }));
  return (
    <Panel reply={reply} title="Reward" class="side-panel">
      {(panel) => <RewardBody panel={panel} />}
    </Panel>
  );
};

const RewardBody = ({ panel }: { panel: RewardPanel }) => (
  <>
    {panel.absent && <p class="quiet">{visible(panel.absent)}</p>}
    {panel.reward !== null && <p class="total">{number(panel.reward)}</p>}
    {panel.components.length > 0 && (
      <dl class="components">
        {panel.components.map((component) => (
          <div key={component.name}>
            <dt>
              <Theirs text={component.name} limit={60} />
            </dt>
            <dd>{number(component.value)}</dd>
            {component.evidence.map((evidence) => (
              <dd key={`${evidence.at} ${evidence.start}`} class="evidence">
                <a href={placeWith({ item: String(evidence.at) })}>item {evidence.at}</a> <Theirs text={evidence.text} />
              </dd>
            ))}
          </div>
        ))}
      </dl>
    )}
    {panel.fields.length > 0 && (
      <dl class="fields">
        {panel.fields.map((field) => (
          <div key={field.name}>
            <dt>
              <Theirs text={field.name} limit={60} />
            </dt>
            <dd class="theirs" dir="auto">
              {visible(field.value)}
            </dd>
          </div>
        ))}
      </dl>
    )}
    {panel.evaluations.map((evaluation, at) => (
      <section class="judge" key={at}>
        <h3>
          Judge {panel.evaluations.length > 1 ? at + 1 : ""} <Theirs text={evaluation.verdict} limit={60} />
        </h3>
        {evaluation.question && <Question text={evaluation.question} />}
        {evaluation.answer && (
          <details open>
            <summary>Answer</summary>
            <TheirBlock text={evaluation.answer} label="Answer of the judge" />
          </details>
        )}
        {evaluation.fields.map((field) => (
          <p key={field.name} class="quiet">
            <Theirs text={field.name} />: <Theirs text={field.value} />
          </p>
        ))}
      </section>
    ))}
    <Notes texts={panel.notes} />
  </>
);

/** A question of at most so many characters is open; of a longer one the end is shown. */
const OPEN_QUESTION = 600;
const END_LINES = 4;

/** What a judge was asked. What it compares is usually at the end, after its instructions. */
const Question = ({ text }: { text: string }) => {
  const isShort = text.length <= OPEN_QUESTION;
  const end = text.trimEnd().split("\n").filter((line) => line.trim()).slice(-END_LINES).join("\n").slice(-OPEN_QUESTION);
  return (
    <>
      <details open={isShort}>
        <summary>Question</summary>
        <TheirBlock text={text} label="Question to the judge" />
      </details>
      {!isShort && (
        <>
          <p class="quiet">It ends with:</p>
          <TheirBlock text={end} label="End of the question to the judge" />
        </>
      )}
    </>
  );
};

const AttemptList = ({ spot }: { spot: Spot }) => {
  const reply = useReply(request("attempts", spot.places));
  return (
    <Panel reply={reply} title="Failed attempts" class="side-panel">
      {(data) => (
        <>
          {data.likely_cause && (
            <p>
              <Theirs text={sentence(data.likely_cause)} limit={1_000} />
            </p>
          )}
          {data.next_action && (
            <p>
              <b>Next: </b>
              <bdi class="theirs" dir="auto">
                <WithOptions text={sentence(visibleLine(data.next_action, 1_000))} />
              </bdi>
            </p>
          )}
          {data.attempts.map((attempt) => (
            <AttemptEntry key={attempt.number} attempt={attempt} />
          ))}
        </>
      )}
    </Panel>
  );
};

const AttemptEntry = ({ attempt }: { attempt: Attempt }) => (
  <section class="attempt">
    <h3>
      Attempt {attempt.number}: {visible(attempt.failure_class)}
      <small>
        {visible(attempt.layer)}
        {attempt.elapsed_s !== null && `, after ${duration(attempt.elapsed_s)}`}
      </small>
    </h3>
    <TheirBlock text={attempt.message} label={`Message of attempt ${attempt.number}`} />
    {attempt.hint && (
      <p>
        <Theirs text={attempt.hint} limit={1_000} />
      </p>
    )}
    {attempt.hops.length > 0 && (
      <p class="quiet">
        through{" "}
        {attempt.hops.map((hop, at) => (
          <span key={at}>
            {at > 0 && " → "}
            <Theirs text={hop} />
          </span>
        ))}
      </p>
    )}
    {attempt.body && (
      <details>
        <summary>Innermost body</summary>
        <TheirBlock text={attempt.body} label="Innermost body" />
      </details>
    )}
    {attempt.judge_question && (
      <details>
        <summary>What the judge was asked</summary>
        <TheirBlock text={attempt.judge_question} label="What the judge was asked" />
      </details>
    )}
    {attempt.traceback && (
      <details open={!attempt.traceback.trim().includes("\n")}>
        <summary>Traceback</summary>
        <TheirBlock text={attempt.traceback} label="Traceback" />
      </details>
    )}
  </section>
);

const TimeList = ({ spot }: { spot: Spot }) => {
  const reply = useReply(request("times", spot.places));
  return (
    <Panel reply={reply} title="Time" class="side-panel">
      {(times) => {
        if (times.spans.length === 0) return <p class="quiet"><WithOptions text={sentence(visible(times.absent || "no times were recorded."))} /></p>;
        const end = Math.max(...times.spans.map((span) => span.end_s), 1e-9);
        return (
          <>
            <ol class="spans">
              {times.spans.map((span, at) => (
                <li key={at} data-tip={`${span.name}: from ${duration(span.start_s)} to ${duration(span.end_s)}`}>
                  <span>
                    <Theirs text={span.name} limit={60} /> <Theirs text={span.detail} limit={80} />
                  </span>
                  <span class="n">{duration(span.end_s - span.start_s)}</span>
                  <svg class="meter" aria-hidden="true">
                    <rect x={`${(100 * span.start_s) / end}%`} y="0" width={`${Math.max(0.5, (100 * (span.end_s - span.start_s)) / end)}%`} height="100%" class="bar plain" />
                  </svg>
                </li>
              ))}
            </ol>
            <p class="quiet">from {visible(times.source)}</p>
          </>
        );
      }}
    </Panel>
  );
};

const CommandList = ({ spot, name }: { spot: Spot; name: string }) => {
  const reply = useReply(request("commands", spot.places, { row: spot.row }));
  return (
    <Panel reply={reply} title="Commands" class="side-panel">
      {(data) => (
        <>
          {data.commands.map((command) => (
            <div key={command.name} class="command-entry">
              <h3>{visible(command.name)}</h3>
              <Command name={visible(command.name)} text={command.name === "link" ? location.origin + command.value : command.value} />
            </div>
          ))}
          {data.missing && (
            <p class="quiet">
              <WithOptions text={visible(data.missing)} />
            </p>
          )}
          <button type="button" onClick={() => void download(request("download", spot.places, { row: spot.row }), `${name.replaceAll(":", "-")}.json`)}>
            Download the row
          </button>
        </>
      )}
    </Panel>
  );
};

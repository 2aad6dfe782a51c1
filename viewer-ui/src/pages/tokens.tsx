// The tokens of a rollout, turn by turn: ids, log probs, the mask, and what is wrong with them.

import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api";
import { count, decimal, number } from "../format";
import { useReply } from "../hooks";
import { DenseLine } from "../parts/charts";
import { Notes, Panel } from "../parts/common";
import type { TokenRange, TokenTurn } from "../replies";
import { setParameters } from "../router";
import { visible } from "../text";
import type { Spot } from "./conversation";

const SIZE = 2_000;
/** Log probs down to these are of one colour each, from likely to unlikely. */
const STEPS = [-0.05, -0.3, -1, -2.5, -5] as const;

const level = (value: number | null | undefined): string => {
  if (value === null || value === undefined) return "lp-none";
  const at = STEPS.findIndex((step) => value >= step);
  return `lp-${at < 0 ? STEPS.length : at}`;
};

/** `token`: `TURN.POSITION`, as the URL has it. */
export const Tokens = ({ spot, token }: { spot: Spot; token: string | null }) => {
  const reply = useReply(request("tokens", spot.places, { row: spot.row }));
  const [turn, position] = (token ?? "").split(".").map(Number);
  return (
    <Panel reply={reply} class="first tokens">
      {(data) =>
        data.turns.length === 0 ? (
          <Notes texts={[data.absent || "This row holds no token ids."]} title="No tokens." />
        ) : (
          <>
            <Notes texts={data.findings} title="Token ids." />
            <Legend text={data.text} />
            {data.turns.map((line) => (
              <Turn key={line.turn} line={line} spot={spot} opened={token === null ? line.turn === data.turns[0]?.turn : line.turn === turn} position={line.turn === turn ? (position ?? null) : null} />
            ))}
          </>
        )
      }
    </Panel>
  );
};

const Legend = ({ text }: { text: boolean }) => (
  <p class="legend token-legend">
    <span>Log prob:</span>
    {[...STEPS, null].map((step, at) => (
      <span key={at} class={`token lp-${at}`}>
        {step === null ? `below ${STEPS[at - 1]}` : at === 0 ? `${step} to 0` : `${step} to ${STEPS[at - 1]}`}
      </span>
    ))}
    <span class="token lp-none">none</span>
    <span>
      <span class="token lp-none trained">underlined</span> trained on (mask 1)
    </span>
    {!text && <span class="quiet">Ids as text need --tokenizer.</span>}
  </p>
);

const Turn = ({ line, spot, opened, position }: { line: TokenTurn; spot: Spot; opened: boolean; position: number | null }) => {
  const [isOpen, setOpen] = useState(opened);
  const total = line.prompt_ids + line.generation_ids;
  return (
    <details class="turn" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <b>Turn {line.turn}</b> {count(line.prompt_ids)} of the prompt, {count(line.generation_ids)} generated
        {line.mean_log_prob !== null && `, mean log prob ${decimal(line.mean_log_prob)}`}
        {line.weight_version && `, weights ${visible(line.weight_version)}`}
        {line.break_at !== null && <span class="bad"> break</span>}
        {line.continuity && <span class={line.continuity === "broken" ? "bad" : "quiet"}> continuity: {visible(line.continuity)}</span>}
      </summary>
      {line.ids_before > 0 && <p class={line.break_at === null ? "quiet" : "bad"}>{joining(line)}</p>}
      {line.reason && <p>{visible(line.reason)}</p>}
      <Notes texts={line.findings} title="Finding." />
      {isOpen && <Range turn={line.turn} total={total} spot={spot} first={position === null ? line.prompt_ids : position} chosen={position} />}
    </details>
  );
};

/** How the prompt of a turn joins what was before it: training joins turns into one sequence. */
const joining = ({ ids_before: before, break_at: at }: TokenTurn): string =>
  at === null
    ? `Continues: the prompt starts with all ${count(before)} ids of the turn before, so that both are one sequence.`
    : `Break: the prompt does not continue the ${count(before)} ids of the turn before; position ${count(at)} differs. A new sequence begins here.`;

interface RangeProps {
  turn: number;
  total: number;
  spot: Spot;
  /** The token that is shown first. */
  first: number;
  chosen: number | null;
}

const Range = ({ turn, total, spot, first, chosen }: RangeProps) => {
  const start = Math.floor(first / SIZE) * SIZE;
  const goTo = (position: number) => setParameters({ token: `${turn}.${position}` });
  const reply = useReply(request("tokenRange", { ...spot.places, turn }, { row: spot.row, start }));
  return (
    <Panel reply={reply}>
      {(range) => (
        <>
          <DenseLine values={range.log_probs} start={range.start} label="Log prob by position; the list below has the numbers" title="position of the token; up is its log prob" />
          <Cells range={range} turn={turn} chosen={chosen} />
          {total > SIZE && (
            <nav class="pages" aria-label={`Tokens of turn ${turn}`}>
              <button type="button" disabled={start === 0} onClick={() => goTo(start - SIZE)}>
                Previous
              </button>
              <p>
                {count(range.start + 1)} to {count(range.start + range.ids.length)} of {count(range.total)}
              </p>
              <button type="button" disabled={start + SIZE >= total} onClick={() => goTo(start + SIZE)}>
                Next
              </button>
            </nav>
          )}
        </>
      )}
    </Panel>
  );
};

const Cells = ({ range, turn, chosen }: { range: TokenRange; turn: number; chosen: number | null }) => {
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    // what was generated is read more often than its prompt
    const cell = list.current?.querySelector<HTMLElement>(chosen === null ? ".begins" : '[aria-current="true"]');
    if (cell && list.current) list.current.scrollTop = cell.offsetTop - list.current.offsetTop - (chosen === null ? 60 : 200);
  }, [range, chosen]);
  const last = range.start + range.ids.length - 1;
  const choose = (event: KeyboardEvent) => {
    const at = chosen ?? Math.max(range.start, range.prompt_ids) - 1;
    const places: Readonly<Record<string, number>> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: range.start, End: last };
    const next = places[event.key];
    if (next === undefined) return;
    event.preventDefault();
    setParameters({ token: `${turn}.${Math.min(last, Math.max(range.start, next))}` });
  };
  return (
    <>
    <ol
      class="token-cells"
      ref={list}
      start={range.start}
      tabIndex={0}
      role="list"
      aria-label={`Tokens of turn ${turn}; arrows choose one`}
      onKeyDown={choose}
      onClick={(event) => {
        const at = (event.target as Element).closest("[data-at]")?.getAttribute("data-at");
        if (at) setParameters({ token: `${turn}.${at}` });
      }}
    >
      {range.ids.map((id, at) => {
        const position = range.start + at;
        const value = range.log_probs[at];
        const isTrained = range.mask[at] === 1;
        const text = range.texts[at];
        const tip = tokenText(range, at);
        return (
          <li
            key={position}
            data-at={position}
            data-tip={tip}
            aria-current={position === chosen ? "true" : undefined}
            class={`token ${level(value)}${isTrained ? " trained" : ""}${position === range.prompt_ids ? " begins" : ""}`}
          >
            {text !== undefined && <bdi class="theirs">{visible(text).replaceAll("\n", "⏎")}</bdi>}
            <span>{id ?? "none"}</span>
            <small>{value === null || value === undefined ? "" : shortLogProb(value)}</small>
          </li>
        );
      })}
    </ol>
      <p class="quiet" role="status">
        {chosen !== null && chosen >= range.start && chosen <= last ? `Chosen: ${tokenText(range, chosen - range.start)}.` : ""}
      </p>
    </>
  );
};

/** Two digits that count, so that a likely token is not of 0. */
const shortLogProb = (value: number): string => (Math.abs(value) < 0.005 && value !== 0 ? value.toExponential(0) : number(Math.round(value * 100) / 100));

/** What is known of one token. `at`: its place in the range. */
const tokenText = (range: TokenRange, at: number): string => {
  const value = range.log_probs[at];
  const logProb = value === null || value === undefined ? "none" : decimal(value);
  return `position ${range.start + at}, id ${range.ids[at] ?? "none"}, log prob ${logProb}, ${range.mask[at] === 1 ? "trained on" : "not trained on"}`;
};

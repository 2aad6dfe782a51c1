// Charts as SVG of flexible width: lengths across are percentages, lengths up are pixels, as in the report.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { amount, compact, count, decimal, interval, number, percent } from "../format";
import type { FigureBar, PassCurvePoint, FieldHistogram, IntervalValue, LengthBar } from "../replies";
import { visible } from "../text";

const HEIGHT = 190;
const TOP = 14;
const BOTTOM = 26;
/** Free space at both ends of a curve's axis, in percent. */
const PADDING = 4;
const LEAST_PIXELS = 1.5;
const MOST_LABELS = 11;
const WIDEST_BAR = 18;

export type Tone = "plain" | "never" | "sometimes" | "always" | "quiet";

interface Scale {
  low: number;
  high: number;
  top: number;
  bottom: number;
}

const scaled = (scale: Scale, value: number): number =>
  scale.bottom - ((value - scale.low) / (scale.high - scale.low)) * (scale.bottom - scale.top);

const pct = (value: number): string => `${Number(value.toFixed(3))}%`;

const niceStep = (step: number, whole: boolean): number => {
  if (whole && step <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(step));
  const distance = (nice: number) => Math.abs(Math.log10((power * nice) / step));
  // a whole step of 2.5 would be labelled 3, 5, 8
  const factors = whole && power === 1 ? [1, 2, 3, 5, 10] : [1, 2, 2.5, 5, 10];
  return power * factors.reduce((best, nice) => (distance(nice) < distance(best) ? nice : best));
};

const niceTicks = (largest: number): number[] => {
  const step = niceStep(largest / 4, true);
  return Array.from({ length: Math.max(1, Math.ceil(largest / step)) + 1 }, (_, at) => step * at);
};

const spanTicks = (low: number, high: number): number[] => {
  const step = niceStep((high - low) / 4, false);
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) ticks.push(Number((at * step).toPrecision(10)));
  return ticks;
};

const Grid = ({ scale, ticks }: { scale: Scale; ticks: readonly [number, string][] }) => (
  <>
    {ticks.map(([value, text]) => (
      <g key={value}>
        <line x1="0%" y1={scaled(scale, value)} x2="100%" y2={scaled(scale, value)} class={value ? "grid" : "base"} />
        <text x="0" y={scaled(scale, value)} dx="-8" dy="0.32em" text-anchor="end">
          {text}
        </text>
      </g>
    ))}
  </>
);

export const Labels = ({ texts, width, y }: { texts: readonly string[]; width: number; y: number }) => {
  const step = Math.ceil(texts.length / MOST_LABELS);
  const last = texts.length - 1;
  const places = texts.map((_, at) => at).filter((at) => at === last || (at % step === 0 && last - at > step / 2));
  const many = places.length > 6;
  return (
    <>
      {places.map((at, number_) => (
        <text key={at} x={pct((at + 0.5) * width)} y={y} text-anchor="middle" class={many && number_ % 2 && at !== last ? "spare" : ""}>
          {visible(texts[at] ?? "")}
        </text>
      ))}
    </>
  );
};

interface FigureProps {
  title: string;
  reading?: string;
  heads: readonly string[];
  rows: readonly (readonly string[])[];
  children: ComponentChildren;
}

/** A chart with its reading, and its numbers in a table. */
export const Figure = ({ title, reading, heads, rows, children }: FigureProps) => (
  <section class="figure">
    <h3>{title}</h3>
    {reading && <p class="reading">{reading}</p>}
    {children}
    <details class="numbers">
      <summary>Numbers</summary>
      <div class="scrolling" tabIndex={0} role="region" aria-label={`Numbers of: ${title}`}>
        <table>
          <thead>
            <tr>
              {heads.map((head) => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at}>{row.map((cell, column) => (column ? <td key={column}>{cell}</td> : <th key={column} scope="row">{cell}</th>))}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  </section>
);

const Plot = ({ label, title, height, children }: { label: string; title: string; height: number; children: ComponentChildren }) => (
  <div class="plot">
    <svg class="chart" width="100%" height={height} role="group" aria-label={label}>
      {children}
    </svg>
    <p class="x-title">{title}</p>
  </div>
);

interface ColumnProps {
  bars: readonly FigureBar[];
  tone: (bar: FigureBar, at: number) => Tone;
  /** What a bar counts, in the singular. */
  unit: string;
  title: string;
  label: string;
  link: (bar: FigureBar) => string | null;
}

/** Counts as bars; each links to what it counts. */
export const ColumnChart = ({ bars, tone, unit, title, label, link }: ColumnProps) => {
  const total = bars.reduce((sum, bar) => sum + bar.count, 0);
  const ticks = niceTicks(Math.max(1, ...bars.map((bar) => bar.count)));
  const scale = { low: 0, high: ticks[ticks.length - 1] ?? 1, top: TOP, bottom: HEIGHT - BOTTOM };
  const width = 100 / bars.length;
  const wide = Math.min(width * 0.8, WIDEST_BAR);
  return (
    <Plot label={label} title={title} height={HEIGHT}>
      <Grid scale={scale} ticks={ticks.map((tick) => [tick, tick < 10_000 ? count(tick) : compact(tick)])} />
      {bars.map((bar, at) => {
        const height = bar.count ? Math.max(scale.bottom - scaled(scale, bar.count), LEAST_PIXELS) : 0;
        const tip = `${bar.label}: ${amount(bar.count, unit)} (${percent(total ? bar.count / total : 0)})`;
        const inside = (
          <>
            <rect x={pct(at * width)} y={scale.top} width={pct(width)} height={scale.bottom - scale.top} class="hit" />
            <rect x={pct(at * width + (width - wide) / 2)} y={scale.bottom - height} width={pct(wide)} height={height} class={`bar ${tone(bar, at)}`} />
          </>
        );
        const to = bar.count ? link(bar) : null;
        return to ? (
          <a key={at} class="mark" href={to} data-tip={tip} aria-label={`${tip}: show them`}>
            {inside}
          </a>
        ) : (
          <g key={at} class="mark" data-tip={tip}>
            {inside}
          </g>
        );
      })}
      <Labels texts={bars.map((bar) => bar.tick)} width={width} y={HEIGHT - BOTTOM + 16} />
    </Plot>
  );
};

const valueText = (value: number, binary: boolean): string => (binary ? percent(value) : decimal(value));

const spreadText = (spread: IntervalValue, binary: boolean): string => {
  const middle = spread.value === null ? "–" : valueText(spread.value, binary);
  if (spread.low === null || spread.high === null) return middle;
  return `${middle} (95 %: ${valueText(spread.low, binary)} to ${valueText(spread.high, binary)})`;
};

const curveScale = (spreads: readonly IntervalValue[], binary: boolean): Scale => {
  const bottom = HEIGHT - BOTTOM;
  if (binary) return { low: 0, high: 1, top: TOP, bottom };
  const ends = spreads.flatMap((spread) => [spread.value, spread.low, spread.high]).filter((end) => end !== null);
  const low = Math.min(...ends);
  const high = Math.max(...ends);
  const room = (high - low) * 0.08 || 0.5;
  return { low: low - room, high: high + room, top: TOP, bottom };
};

const curveTicks = (scale: Scale, binary: boolean): [number, string][] =>
  spanTicks(scale.low, scale.high).map((tick) => [tick, binary ? `${Math.round(100 * tick)} %` : String(Number(tick.toPrecision(6)))]);

const Line = ({ xs, ys, name }: { xs: readonly number[]; ys: readonly number[]; name: string }) => (
  <>
    {xs.slice(1).map((x, at) => (
      <line key={at} x1={pct(xs[at] ?? 0)} y1={ys[at]} x2={pct(x)} y2={ys[at + 1]} class={`line ${name}`} />
    ))}
  </>
);

const Point = ({ x, spread, scale, tip, href }: { x: number; spread: IntervalValue; scale: Scale; tip: string; href?: string | null }) => {
  if (spread.value === null) return null;
  const y = scaled(scale, spread.value);
  const inside = (
    <>
      {spread.low !== null && spread.high !== null && (
        <line
          x1={pct(x)}
          y1={scaled(scale, Math.max(spread.low, scale.low))}
          x2={pct(x)}
          y2={scaled(scale, Math.min(spread.high, scale.high))}
          class="whisker"
        />
      )}
      <circle cx={pct(x)} cy={y} r="4" class="dot first" />
      <circle cx={pct(x)} cy={y} r="14" class="hit" />
    </>
  );
  return href ? (
    <a class="mark" href={href} data-tip={tip} aria-label={`${tip}: show them`}>
      {inside}
    </a>
  ) : (
    <g class="mark" data-tip={tip}>
      {inside}
    </g>
  );
};

/** The best of k rollouts against k; for rewards of 0 and 1 also pass^k. */
export const CurveChart = ({ points, binary }: { points: readonly PassCurvePoint[]; binary: boolean }) => {
  const xs = points.map((_, at) => PADDING + ((100 - 2 * PADDING) * at) / Math.max(1, points.length - 1));
  const best = points.map((point) => point.best);
  const scale = curveScale(best, binary);
  const name = binary ? "pass@k" : "best of k";
  const worst = points.map((point) => point.worst).filter((value) => value !== null);
  const hasWorst = binary && worst.length === points.length;
  const last = points.length - 1;
  const top = best[last]?.high ?? best[last]?.value ?? scale.high;
  return (
    <Plot label={`${name} against k`} title="rollouts per task, k" height={HEIGHT}>
      <Grid scale={scale} ticks={curveTicks(scale, binary)} />
      {hasWorst && (
        <>
          <Line xs={xs} ys={worst.map((value) => scaled(scale, value))} name="second" />
          {worst.map((value, at) => (
            <g key={at} class="mark" data-tip={`pass^${points[at]?.k}: ${percent(value)}`}>
              <circle cx={pct(xs[at] ?? 0)} cy={scaled(scale, value)} r="3" class="dot second" />
            </g>
          ))}
          <text x={pct(xs[last] ?? 0)} y={scaled(scale, worst[last] ?? 0) - 10} class="series second" text-anchor="end">
            pass^k
          </text>
        </>
      )}
      <Line xs={xs} ys={best.map((spread) => scaled(scale, spread.value ?? scale.low))} name="first" />
      {points.map((point, at) => (
        <Point key={at} x={xs[at] ?? 0} spread={point.best} scale={scale} tip={`pass@${point.k}: ${spreadText(point.best, binary)}`} />
      ))}
      <text x={pct(xs[last] ?? 0)} y={Math.max(scaled(scale, Math.min(top, scale.high)) - 9, 9)} class="series first" text-anchor="end">
        {name}
      </text>
      {points.map((point, at) => (
        <text key={at} x={pct(xs[at] ?? 0)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
          {point.k}
        </text>
      ))}
    </Plot>
  );
};

/** The mean reward by length, and below it how many rollouts have that length. */
export const LengthChart = ({ bins, binary, link }: { bins: readonly LengthBar[]; binary: boolean; link: (bin: LengthBar) => string | null }) => {
  const width = 100 / bins.length;
  const xs = bins.map((_, at) => (at + 0.5) * width);
  const scale = curveScale(bins.map((bin) => bin.reward), binary);
  const most = Math.max(1, ...bins.map((bin) => bin.rollouts));
  const counts = { low: 0, high: most, top: scale.bottom + 18, bottom: scale.bottom + 58 };
  return (
    <Plot label="Mean reward by output tokens" title="output tokens, from" height={counts.bottom + BOTTOM}>
      <Grid scale={scale} ticks={curveTicks(scale, binary)} />
      <Line xs={xs} ys={bins.map((bin) => scaled(scale, bin.reward.value ?? scale.low))} name="first" />
      {bins.map((bin, at) => {
        const tip = `${count(bin.low)} to ${count(bin.high)} tokens: ${spreadText(bin.reward, binary)}, ${count(bin.rollouts)} rollouts`;
        const y = Math.min(scaled(counts, bin.rollouts), counts.bottom - LEAST_PIXELS);
        return (
          <g key={at}>
            <rect x={pct((xs[at] ?? 0) - width * 0.4)} y={y} width={pct(width * 0.8)} height={counts.bottom - y} class="bar quiet" />
            <Point x={xs[at] ?? 0} spread={bin.reward} scale={scale} tip={tip} href={link(bin)} />
          </g>
        );
      })}
      <Labels texts={bins.map((bin) => compact(bin.low))} width={width} y={counts.bottom + 16} />
    </Plot>
  );
};

interface DenseProps {
  values: readonly (number | null)[];
  /** The position of the first value. */
  start: number;
  label: string;
  title: string;
}

/** Thousands of values as one line; where a value is missing, the line is broken. */
export const DenseLine = ({ values, start, label, title }: DenseProps) => {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const height = 110;
  const scale = { low: Math.min(...known), high: Math.max(0, ...known), top: 8, bottom: height - BOTTOM };
  if (scale.low === scale.high) scale.low -= 1;
  let shape = "";
  values.forEach((value, at) => {
    if (value !== null) shape += `${at && values[at - 1] !== null ? "L" : "M"}${at} ${scaled(scale, value).toFixed(1)}`;
  });
  const last = Math.max(1, values.length - 1);
  const places = [0, 0.25, 0.5, 0.75, 1];
  return (
    <Plot label={label} title={title} height={height}>
      <Grid scale={scale} ticks={spanTicks(scale.low, scale.high).map((tick) => [tick, number(tick)])} />
      <svg x="0" y="0" width="100%" height={height} viewBox={`0 0 ${last} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        <path d={shape} class="dense" />
      </svg>
      {places.map((place) => (
        <text key={place} x={pct(100 * place)} y={height - BOTTOM + 16} text-anchor={place === 0 ? "start" : place === 1 ? "end" : "middle"}>
          {count(start + Math.round(place * last))}
        </text>
      ))}
    </Plot>
  );
};

export interface Share {
  tone: Tone;
  share: number;
  tip: string;
}

/** Shares of a whole as one bar. */
export const ShareBar = ({ parts }: { parts: readonly Share[] }) => {
  let x = 0;
  return (
    <svg class="share" role="img" aria-label={parts.map((part) => part.tip).join(", ")}>
      {parts.map((part) => {
        const start = x;
        x += part.share;
        return part.share > 0 ? (
          <rect key={part.tip} x={pct(100 * start)} y="0" width={pct(100 * part.share)} height="100%" class={`bar ${part.tone}`} data-tip={part.tip} />
        ) : null;
      })}
    </svg>
  );
};

export const Meter = ({ share, tone }: { share: number; tone: Tone }) => (
  <svg class="meter" aria-hidden="true">
    <rect x="0" y="0" width={pct(100 * Math.min(1, Math.max(0, share)))} height="100%" class={`bar ${tone}`} />
  </svg>
);

/** Rewards of one task, a bar each; zeros are short and grey. */
export const Strip = ({ rewards, height = 16 }: { rewards: readonly number[]; height?: number }) => {
  if (rewards.length === 0) return null;
  const low = Math.min(0, ...rewards);
  const high = Math.max(1, ...rewards);
  const step = Math.min(5, 128 / rewards.length);
  const shapes = ["", ""];
  rewards.forEach((reward, at) => {
    const share = (reward - low) / (high - low);
    const tall = reward <= 0 ? 2 : 3 + share * (height - 3);
    shapes[reward <= 0 ? 0 : 1] += `M${at * step} ${height}v${-tall}h${step * 0.76}v${tall}z`;
  });
  const text = `rewards ${rewards.slice(0, 8).map((reward) => number(reward)).join(", ")}${rewards.length > 8 ? ", …" : ""}`;
  return (
    <svg class="strip" width={Math.ceil(step * rewards.length)} height={height} role="img" aria-label={text}>
      <path d={shapes[0]} class="nil" />
      <path d={shapes[1]} />
    </svg>
  );
};

interface BrushProps {
  histogram: FieldHistogram;
  label: string;
  /** The range that the query asks for. */
  chosen: readonly [number, number] | null;
  onChoose: (range: readonly [number, number] | null) => void;
}

/** Whether bins grow: a few huge values would else press all others into the first one. */
const isLogarithmic = (edges: readonly number[]): boolean => {
  const widths = edges.slice(1).map((edge, at) => edge - (edges[at] ?? 0));
  return (widths[widths.length - 1] ?? 0) > 2 * (widths[0] ?? 0);
};

const rounded = (value: number): number => Number(value.toPrecision(6));

/** A histogram that chooses a range: by dragging, or by its two fields. */
export const Brush = ({ histogram, label, chosen, onChoose }: BrushProps) => {
  const { edges, counts, all_counts: all } = histogram;
  const [drag, setDrag] = useState<readonly [number, number] | null>(null);
  const bins = counts.length;
  const most = Math.max(1, ...all);
  const height = 54;
  // bins of whole numbers end halfway between two of them
  const isWhole = edges.every((edge) => Math.abs(edge % 1) === 0.5);
  const lowOf = (at: number): number => (isWhole ? Math.ceil(edges[at] ?? 0) : (edges[at] ?? 0));
  const highOf = (at: number): number => (isWhole ? Math.floor(edges[at + 1] ?? 0) : (edges[at + 1] ?? 0));
  const binAt = (event: PointerEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.min(bins - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * bins)));
  };
  const rangeOf = (first: number, second: number): readonly [number, number] => {
    const [low, high] = [Math.min(first, second), Math.max(first, second)];
    return [lowOf(low), highOf(high)];
  };
  const inside = (at: number): boolean => {
    if (drag) return at >= Math.min(...drag) && at <= Math.max(...drag);
    return !chosen || ((edges[at + 1] ?? 0) > chosen[0] && (edges[at] ?? 0) < chosen[1]) || (edges[at] ?? 0) === chosen[0];
  };
  const [low, high] = chosen ?? [null, null];
  const change = (which: 0 | 1, text: string) => {
    if (text === "" && (which === 0 ? high : low) === null) return onChoose(null);
    const next: [number, number] = [low ?? lowOf(0), high ?? highOf(bins - 1)];
    next[which] = text === "" ? (which === 0 ? lowOf(0) : highOf(bins - 1)) : Number(text);
    return onChoose(next);
  };
  return (
    <fieldset class="brush">
      <legend>
        {label}
        {isLogarithmic(edges) && <span class="scale">, log scale</span>} {histogram.missing > 0 && <small>{count(histogram.missing)} without</small>}
      </legend>
      <svg
        width="100%"
        height={height}
        aria-hidden="true"
        onPointerDown={(event) => {
          (event.currentTarget as Element).setPointerCapture(event.pointerId);
          setDrag([binAt(event), binAt(event)]);
        }}
        onPointerMove={(event) => drag && setDrag([drag[0], binAt(event)])}
        onPointerUp={(event) => {
          if (drag) onChoose(rangeOf(drag[0], binAt(event)).map(rounded) as [number, number]);
          setDrag(null);
        }}
        onPointerCancel={() => setDrag(null)}
      >
        {counts.map((matching, at) => {
          const tall = (value: number) => (value ? Math.max(LEAST_PIXELS, (value / most) * (height - 2)) : 0);
          const [back, front] = [tall(all[at] ?? 0), tall(matching)];
          const [x, wide] = [pct((100 * at) / bins + 8 / bins), pct(84 / bins)];
          const values = lowOf(at) === highOf(at) ? number(lowOf(at)) : `${number(lowOf(at))} to ${number(highOf(at))}`;
          const tip = `${values}: ${count(matching)} of ${count(all[at] ?? 0)}`;
          return (
            <g key={at} data-tip={tip} class={inside(at) ? "in" : "out"}>
              <rect x={pct((100 * at) / bins)} y="0" width={pct(100 / bins)} height={height} class="hit" />
              <rect x={x} y={height - back} width={wide} height={back} class="bar quiet" />
              <rect x={x} y={height - front} width={wide} height={front} class="bar plain front" />
            </g>
          );
        })}
        <line x1="0" x2="100%" y1={height} y2={height} class="base" />
      </svg>
      <div class="ends">
        <input
          type="number"
          step="any"
          aria-label={`${label} from`}
          placeholder={number(lowOf(0))}
          value={low ?? ""}
          onChange={(event) => change(0, event.currentTarget.value)}
        />
        {chosen ? (
          <button type="button" class="bare" onClick={() => onChoose(null)} aria-label={`clear the range of ${label}`}>
            clear
          </button>
        ) : (
          <span class="quiet">to</span>
        )}
        <input
          type="number"
          step="any"
          aria-label={`${label} to`}
          placeholder={number(highOf(bins - 1))}
          value={high ?? ""}
          onChange={(event) => change(1, event.currentTarget.value)}
        />
      </div>
    </fieldset>
  );
};

export const intervalText = (value: IntervalValue | null): string => (value ? interval(value.low, value.high) : "");

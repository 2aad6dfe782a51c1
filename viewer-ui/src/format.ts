// Numbers in the same words as the report's: three significant digits, thousands apart, `95.0 %`.

const UNIT = "\u00a0%";
const DASH = "–";

/** `value` with so many decimals, as Python writes it in the report: a tie goes to the even digit. */
const fixed = (value: number, digits: number): string => {
  const exact = Math.abs(value).toFixed(30);
  const point = exact.indexOf(".");
  const kept = exact.slice(0, digits ? point + digits + 1 : point);
  const isTie = point > 0 && /^50*$/.test(exact.slice(point + digits + 1));
  const isEven = Number(kept.at(-1)) % 2 === 0;
  return isTie && isEven ? `${value < 0 ? "-" : ""}${kept}` : value.toFixed(digits);
};

/** `value` with three significant digits. */
const significant = (value: number): number => {
  const exponent = value ? Math.floor(Math.log10(Math.abs(value))) : 0;
  return exponent < -20 || exponent > 2 ? Number(value.toPrecision(3)) : Number(fixed(value, 2 - exponent));
};

export const count = (value: number): string => Number(fixed(value, 0)).toLocaleString("en-US");

export const amount = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export const percent = (share: number | null | undefined): string => {
  if (share === null || share === undefined || Number.isNaN(share)) return DASH;
  if (share > 0 && share < 0.001) return `< 0.1${UNIT}`;
  if (share > 0.999 && share < 1) return `> 99.9${UNIT}`;
  return `${fixed(100 * share, 1)}${UNIT}`;
};

export const decimal = (value: number | null | undefined, digits = 3): string =>
  value === null || value === undefined || Number.isNaN(value) ? DASH : fixed(value, digits);

/** Three significant digits, or a whole number from 100 on. */
export const number = (value: number | null | undefined): string => {
  if (value === null || value === undefined || Number.isNaN(value)) return DASH;
  if (Math.abs(value) >= 100) return count(value);
  return String(significant(value));
};

export const signed = (value: number | null | undefined): string =>
  value === null || value === undefined ? DASH : `${value > 0 ? "+" : value < 0 ? "−" : ""}${fixed(Math.abs(value), 3)}`;

const SIZES = ["bytes", "KB", "MB", "GB", "TB"];
export const bytes = (value: number): string => {
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < SIZES.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? count(size) : number(size)} ${SIZES[unit]}`;
};

/** A time span: `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export const duration = (seconds: number | null | undefined): string => {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return DASH;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(2))} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86_400) return pair(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return pair(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3600), "h");
};

const pair = (large: number, unit: string, small: number, under: string): string =>
  small ? `${large} ${unit} ${small} ${under}` : `${large} ${unit}`;

/** A time as `2026-11-27 02:45`, in the reader's zone. */
export const moment = (seconds: number | null | undefined): string => {
  if (!seconds) return DASH;
  const at = new Date(seconds * 1000);
  const two = (part: number) => String(part).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
};

/** The time of day as `02:45:07`, in the reader's zone. */
export const clock = (seconds: number): string => new Date(seconds * 1000).toTimeString().slice(0, 8);

export const interval = (low: number | null | undefined, high: number | null | undefined): string =>
  low === null || low === undefined || high === null || high === undefined
    ? ""
    : `${fixed(low, 3)} to ${fixed(high, 3)}`;

/** The limits of an interval of shares: `41.1 to 60.6 %`. */
export const percents = (low: number, high: number): string => `${fixed(100 * low, 1)} to ${percent(high)}`;

export const compact = (value: number): string => {
  if (Math.abs(value) >= 1e6) return `${number(value / 1e6)}M`;
  if (Math.abs(value) >= 1000) return `${number(value / 1000)}k`;
  return String(significant(value));
};

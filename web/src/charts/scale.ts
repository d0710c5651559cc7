/** Axes: what value stands where, and where lines of the grid are. A logarithmic one has the logarithm to base 10. */

const WIDE = 20; // the largest value by the smallest above which an axis is logarithmic
const LINES = 6;
const NICE = [1, 2, 5, 10];

export interface Scale {
  log: boolean;
  /** Of the whole axis, as it is drawn. */
  from: number;
  to: number;
  drawn: (value: number) => number;
  value: (drawn: number) => number;
  /** The values of the lines between two places. */
  ticks: (from: number, to: number) => number[];
}

/** Returns a scale that has these values with room around them. */
export function scaleOf(values: number[], binary: boolean, log?: boolean): Scale {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (log ?? (least > 0 && most / least > WIDE)) {
    const room = Math.max(0.06 * Math.log10(most / least), 0.1);
    const [from, to] = [Math.log10(least) - room, Math.log10(most) + room];
    return { log: true, from, to, drawn: Math.log10, value: (drawn) => 10 ** drawn, ticks: (low, high) => (binary ? powersOfTwo(low, high) : decades(low, high)) };
  }
  const room = 0.08 * (most - least) || Math.abs(most) * 0.1 || 1;
  // numbers of one sign keep it: an axis does not reach below 0 for room alone
  const from = least >= 0 ? Math.max(0, least - room) : least - room;
  return { log: false, from, to: most + room, drawn: (value) => value, value: (drawn) => drawn, ticks: (low, high) => evenly(low, high, binary) };
}

function evenly(from: number, to: number, binary: boolean): number[] {
  const unit = binary ? 1024 ** Math.max(0, Math.floor(Math.log2(to) / 10)) : 1;
  const raw = (to - from) / LINES / unit;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = unit * power * (NICE.find((each) => each * power >= raw) ?? 10);
  const first = Math.ceil(from / step - 1e-9);
  const count = Math.floor(to / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, place) => (first + place) * step);
}

function decades(from: number, to: number): number[] {
  const steps = to - from < 0.5 ? [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9] : to - from < 2.5 ? [1, 2, 5] : [1];
  const found: number[] = [];
  for (let decade = Math.floor(from); decade <= to; decade++) {
    found.push(...steps.map((step) => Number(`${step}e${decade}`)));
  }
  return found.filter((value) => Math.log10(value) >= from && Math.log10(value) <= to);
}

function powersOfTwo(from: number, to: number): number[] {
  const [first, last] = [Math.ceil(from / Math.log10(2)), Math.floor(to / Math.log10(2))];
  const step = Math.max(1, Math.ceil((last - first) / LINES));
  return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, place) => 2 ** (first + place * step));
}

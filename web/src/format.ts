/** Numbers as text, with their units. */

const TIMES: [number, string][] = [
  [1e6, "s"],
  [1e3, "ms"],
  [1, "µs"],
  [0, "ns"],
];

export function count(value: number): string {
  return grouped(value, 0);
}

/** A number with commas at its thousands; `Intl` takes a hundred times as long, which an axis that moves has no time for. */
function grouped(value: number, digits: number): string {
  const [whole = "", part] = value.toFixed(digits).split(".");
  const commas = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part === undefined ? commas : `${commas}.${part}`;
}

export function cycles(value: number): string {
  return `${count(value)} ${Math.abs(value) === 1 ? "cycle" : "cycles"}`;
}

/** The time of some cycles by a clock, in a unit of its size. */
export function time(value: number, clockMhz: number): string {
  const microseconds = value / clockMhz;
  if (microseconds === 0) {
    return "0 s";
  }
  const [least, unit] = TIMES.find(([from]) => Math.abs(microseconds) >= from) ?? [0, "ns"];
  const scaled = least === 0 ? microseconds * 1e3 : microseconds / least;
  return `${Number(scaled.toPrecision(4)).toLocaleString("en-US")} ${unit}`;
}

/** Times on an axis: all in the unit of the last one, with the digits that tell neighbours apart. */
export function axisTime(value: number, step: number, last: number, clockMhz: number): string {
  const [least, unit] = TIMES.find(([from]) => last / clockMhz >= from) ?? [0, "ns"];
  const scale = (least === 0 ? 1e3 : 1 / least) / clockMhz;
  const digits = Math.min(Math.max(Math.ceil(-Math.log10(step * scale) - 1e-9), 0), 9);
  return `${grouped(value * scale, digits)} ${unit}`;
}

/** Bytes with a binary unit. */
export function size(bytes: number): string {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (bytes < 1024) {
      return `${unit === "B" ? count(bytes) : bytes.toFixed(1)} ${unit}`;
    }
    bytes /= 1024;
  }
  return `${bytes.toFixed(1)} GiB`;
}

export function percent(share: number): string {
  return share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

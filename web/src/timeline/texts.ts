/** What the lines below the picture say. */

import { count, cycles, percent, size, time } from "../format";
import type { Lane } from "./layout";
import type { View } from "./view";
import type { Slice, Tracks, Window } from "./window";

/** What is under the pointer, by the window that shows it; null: nothing is known yet. */
export function describe(tracks: Tracks, cycle: number, lane: Lane, window: Window | null): string {
  const at = `cycle ${count(Math.floor(cycle))}`;
  const layer = tracks.launches.find(({ begin, end }) => begin <= cycle && cycle < end);
  const where = layer === undefined ? at : `${at}, ${layer.name}`;
  if (lane !== null && "layers" in lane && layer !== undefined) {
    const length = layer.end - layer.begin;
    return `${layer.name}: ${cycles(length)}, ${time(length, tracks.clock_mhz)}, ${percent(length / tracks.cycles)} of all`;
  }
  if (lane === null || window === null || "layers" in lane) {
    return where;
  }
  if ("memory" in lane) {
    return memoryText(tracks, cycle, lane.memory, where, window);
  }
  const slices = window.at(lane.track, cycle);
  return `${tracks.tracks[lane.track]?.unit}, ${where}: ${slices.length === 0 ? "idle" : slices.map((slice) => sliceText(tracks, slice)).join("; ")}`;
}

function memoryText(tracks: Tracks, cycle: number, number: number, where: string, window: Window): string {
  const memory = tracks.memories[number];
  if (memory === undefined) {
    return where;
  }
  const { name, elements, element_bytes: bytes } = memory;
  const bin = window.bin(cycle);
  const full = window.held(number, bin);
  const length = window.edge(bin + 1) - window.edge(bin);
  const most = length > 1 ? `at most, in ${cycles(length)}, ` : "";
  return `${name}, ${where}: ${most}${size(full * bytes)} of ${size(elements * bytes)} in use, ${percent(full / elements)}`;
}

function sliceText(tracks: Tracks, slice: Slice): string {
  const category = tracks.categories[slice.category]?.name ?? "";
  const operation = tracks.operations[slice.operation]?.name ?? "";
  const length = `${cycles(slice.cycles)}, ${time(slice.cycles, tracks.clock_mhz)}`;
  if (slice.merged) {
    return `${category} ${cycles(slice.cycles)} of ${count(slice.count)} ${slice.count === 1 ? "slice" : "slices"}`;
  }
  const whose = `${operation} ${count(slice.instruction)}`;
  return slice.category === 0 ? `${whose}, ${length}` : `${whose} waits for ${category}, ${length}`;
}

/** What lies between the markers. */
export function measured(view: View, tracks: Tracks): string {
  const [m, n] = view.markers;
  if (m !== null && n !== null) {
    const length = Math.abs(n - m);
    return `m ${count(m)} to n ${count(n)}: ${cycles(length)}, ${time(length, tracks.clock_mhz)}`;
  }
  const one = m ?? n;
  return one === null ? "" : `${m === null ? "n" : "m"} at ${count(one)}; put the other one to measure`;
}

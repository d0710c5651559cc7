/** What the lines below the picture say. */

import { count, cycles, percent, time } from "../format";
import type { View } from "./view";
import type { Slice, Tracks } from "./window";

/** What is under the pointer: on a lane, on the layers (track -1), or beside them. */
export function describe(tracks: Tracks, cycle: number, track: number | null, slices: Slice[]): string {
  const at = `cycle ${count(Math.floor(cycle))}`;
  const layer = tracks.launches.find(({ begin, end }) => begin <= cycle && cycle < end);
  const where = layer === undefined ? at : `${at}, ${layer.name}`;
  if (track === -1 && layer !== undefined) {
    const length = layer.end - layer.begin;
    return `${layer.name}: ${cycles(length)}, ${time(length, tracks.clock_mhz)}, ${percent(length / tracks.cycles)} of all`;
  }
  const unit = track === null ? undefined : tracks.tracks[track]?.unit;
  if (unit === undefined) {
    return where;
  }
  return `${unit}, ${where}: ${slices.length === 0 ? "idle" : slices.map((slice) => sliceText(tracks, slice)).join("; ")}`;
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

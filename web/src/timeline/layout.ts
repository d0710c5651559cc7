/** Where things are on the canvas, in CSS pixels: layers, a lane a unit, a lane a memory, the axis. */

import type { Tracks } from "./window";

export const LAYERS = 22;
export const LABEL = 17;
export const LANE = 32;
/** Height of a memory's lane. */
export const MEMORY = 24;
export const AXIS = 42;
/** Height of the line that says what part of the whole is shown. */
export const WHERE = 4;
const GAP = 6;

/** The top of a unit's lane. */
export function laneTop(track: number): number {
  return LAYERS + GAP + track * (LABEL + LANE + GAP) + LABEL;
}

/** The top of a memory's lane, which lies below those of the units. */
export function memoryTop(tracks: Tracks, memory: number): number {
  return laneTop(tracks.tracks.length) + memory * (LABEL + MEMORY + GAP);
}

/** The top of the axis. */
export function axisTop(tracks: Tracks): number {
  return memoryTop(tracks, tracks.memories.length) - LABEL;
}

export function heightOf(tracks: Tracks): number {
  return axisTop(tracks) + AXIS;
}

/** What is at a height, by its lane or label: the layers, a unit's track, a memory, or null. */
export type Lane = { layers: true } | { track: number } | { memory: number } | null;

export function laneAt(y: number, tracks: Tracks): Lane {
  if (y < LAYERS) {
    return { layers: true };
  }
  const memories = memoryTop(tracks, 0) - LABEL;
  if (y < LAYERS + GAP || y >= axisTop(tracks)) {
    return null;
  }
  return y < memories
    ? { track: Math.floor((y - LAYERS - GAP) / (LABEL + LANE + GAP)) }
    : { memory: Math.floor((y - memories) / (LABEL + MEMORY + GAP)) };
}

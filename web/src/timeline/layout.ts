/** Where things are on the canvas, in CSS pixels. */

export const LAYERS = 22;
export const LABEL = 17;
export const LANE = 32;
export const AXIS = 42;
/** Height of the line that says what part of the whole is shown. */
export const WHERE = 4;
const GAP = 6;

/** The top of a unit's lane. */
export function laneTop(track: number): number {
  return LAYERS + GAP + track * (LABEL + LANE + GAP) + LABEL;
}

/** The top of the axis. */
export function axisTop(tracks: number): number {
  return LAYERS + GAP + tracks * (LABEL + LANE + GAP);
}

export function heightOf(tracks: number): number {
  return axisTop(tracks) + AXIS;
}

/** The track whose lane or label is at a height; -1 for the layers, null for none. */
export function trackAt(y: number, tracks: number): number | null {
  if (y < LAYERS) {
    return -1;
  }
  const track = Math.floor((y - LAYERS - GAP) / (LABEL + LANE + GAP));
  return y >= LAYERS + GAP && track < tracks ? track : null;
}

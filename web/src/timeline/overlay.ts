/** What is drawn over the lanes: layers, names of slices, the axis, the selection, what it waits for, and the markers. */

import { axisTime, count } from "../format";
import type { Colours } from "./colours";
import type { Details } from "./details";
import { AXIS, axisTop, LABEL, LANE, LAYERS, laneTop, WHERE } from "./layout";
import type { View } from "./view";
import type { Tracks, Window } from "./window";

/** The width from which a slice has its name in it. */
const NAMED = 42;
/** The width from which a slice is set apart from the one before. */
const APART = 6;
const EDGES = 2000;
const LETTER = 6.4;
/** The most names that a frame draws. */
const NAMES = 400;
const FONT = "12px system-ui, sans-serif";
/** Distance of the axis' numbers. */
const TICK = 110;

/** What of a canvas' pen is drawn with, so that pictures of another kind can be written by the same lines. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "fillStyle" | "strokeStyle" | "lineWidth" | "globalAlpha" | "font" | "textBaseline"
  | "fillRect" | "strokeRect" | "fillText" | "measureText"
  | "beginPath" | "moveTo" | "lineTo" | "bezierCurveTo" | "closePath"
> & {
  stroke(): void;
  fill(): void;
};

export interface Scene {
  view: View;
  tracks: Tracks;
  window: Window | null;
  details: Details | null;
  /** The cycle under the pointer. */
  pointer: number | null;
  colours: Colours;
  width: number;
}

type Place = (cycle: number) => number;

/** What lies below the lanes: the axis and its lines. */
export function drawGround(pen: Pen, scene: Scene): void {
  pen.font = FONT;
  pen.textBaseline = "middle";
  pen.lineWidth = 1;
  drawAxis(pen, scene, placing(scene));
}

function placing({ view, width }: Scene): Place {
  return (cycle) => ((cycle - view.begin) / view.span) * width;
}

export function drawOverlay(pen: Pen, scene: Scene): void {
  const x = placing(scene);
  drawLayers(pen, scene, x);
  drawWhere(pen, scene);
  scene.tracks.tracks.forEach(({ unit }, track) => {
    pen.fillStyle = scene.colours.quiet;
    pen.fillText(unit, 2, laneTop(track) - LABEL / 2);
  });
  drawNames(pen, scene, x);
  drawSelection(pen, scene, x);
  drawMarkers(pen, scene, x);
}

function clipped(text: string, room: number): string {
  const letters = Math.floor(room / LETTER);
  return text.length <= letters ? text : letters > 2 ? `${text.slice(0, letters - 1)}…` : "";
}

/** The end of a layer's name, which tells it from others: they begin alike. Fewer than five letters of it tell nothing. */
function ending(text: string, room: number): string {
  const letters = Math.floor(room / LETTER);
  return text.length <= letters ? text : letters > 5 ? `…${text.slice(1 - letters)}` : "";
}

function drawLayers(pen: Pen, { tracks, view, colours, width }: Scene, x: Place): void {
  let drawn = -1;
  tracks.launches.forEach((launch, place) => {
    const left = Math.max(x(launch.begin), 0);
    const right = Math.min(x(launch.end), width);
    if (launch.end <= view.begin || launch.begin >= view.end || right <= drawn) {
      return;
    }
    drawn = Math.ceil(left);
    pen.fillStyle = place % 2 === 0 ? colours.raised : colours.line;
    pen.fillRect(left, 0, Math.max(right - left, 1), LAYERS - 2);
    pen.fillStyle = colours.text;
    pen.fillText(ending(launch.name, right - left - 8), left + 4, LAYERS / 2 - 1);
  });
  pen.fillStyle = colours.host;
  for (const host of tracks.hosts) {
    const at = x(host.cycle);
    if (at >= 0 && at <= width) {
      pen.fillRect(Math.min(Math.max(at - 1, 0), width - 2), 0, 2, LAYERS - 2);
    }
  }
}

/** Where one instruction ends and the next begins, and the names of those with room for one. */
function drawNames(pen: Pen, { window, tracks, view, width, colours }: Scene, x: Place): void {
  if (window === null || (window.step / view.span) * width > 2 * APART && window.step > 1) {
    return; // a coarse window's edges are not those of slices
  }
  let names = NAMES;
  let edges = EDGES;
  window.visit(view.begin, view.end, (APART / width) * view.span, (slice) => {
    const from = Math.max(x(slice.begin), 0);
    const room = Math.min(x(slice.begin + slice.cycles), width) - from;
    if (room < APART || edges-- <= 0) {
      return;
    }
    const top = laneTop(slice.track);
    pen.fillStyle = colours.card;
    pen.fillRect(Math.round(x(slice.begin)), top, 1, LANE);
    const working = slice.category === 0;
    const name = (working ? tracks.operations[slice.operation]?.name : tracks.categories[slice.category]?.name) ?? "";
    const fits = room - 8 >= name.length * LETTER || (working && room >= NAMED);
    if (fits && names-- > 0) {
      // the colours of the categories are light enough for this in both schemes
      pen.fillStyle = "#000";
      pen.fillText(clipped(name, room - 8), from + 4, top + LANE / 2 + 1);
    }
  });
}

/** What part of the whole the view is. */
function drawWhere(pen: Pen, { view, tracks, colours, width }: Scene): void {
  const top = axisTop(tracks) + AXIS - WHERE;
  pen.fillStyle = colours.raised;
  pen.fillRect(0, top, width, WHERE);
  pen.fillStyle = colours.accent;
  pen.fillRect((view.begin / view.last) * width, top, Math.max((view.span / view.last) * width, 3), WHERE);
}

/** The distance of ticks: 1, 2 or 5 times a power of ten, and no less than a cycle. */
export function tickStep(span: number, ticks: number): number {
  const raw = Math.max(span / Math.max(ticks, 1), 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  return ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power;
}

function drawAxis(pen: Pen, { view, tracks, colours, width }: Scene, x: Place): void {
  const top = axisTop(tracks);
  const step = tickStep(view.span, width / TICK);
  for (let cycle = Math.ceil(view.begin / step) * step; cycle <= view.end; cycle += step) {
    const at = Math.round(x(cycle)) + 0.5;
    pen.strokeStyle = colours.line;
    pen.beginPath();
    pen.moveTo(at, LAYERS);
    pen.lineTo(at, top + 5);
    pen.stroke();
    const texts = [count(cycle), axisTime(cycle, step, view.end, tracks.clock_mhz)];
    // only the last ones may have no room, and are worth measuring
    if (at + 2 * TICK <= width || at + 3 + Math.max(...texts.map((text) => pen.measureText(text).width)) <= width) {
      texts.forEach((text, line) => {
        pen.fillStyle = line === 0 ? colours.text : colours.quiet;
        pen.fillText(text, at + 3, top + 11 + 15 * line);
      });
    }
  }
}

function drawSelection(pen: Pen, scene: Scene, x: Place): void {
  const { details, tracks, colours } = scene;
  if (details === null) {
    return;
  }
  const track = tracks.tracks.findIndex(({ unit }) => unit === details.record.unit);
  const left = x(details.record.start);
  pen.strokeStyle = colours.text;
  pen.lineWidth = 2;
  pen.strokeRect(left, laneTop(track) - 1, Math.max(x(details.record.end) - left, 2), LANE + 2);
  for (const arrow of arrowsOf(details, tracks)) {
    drawArrow(pen, x(arrow.begin), arrow.from, x(arrow.end), arrow.to);
  }
  pen.lineWidth = 1;
}

/** An arrow from the end of an instruction, on the lane `from`, to the start of one that waits for it, on `to`. */
export interface Arrow {
  from: number;
  to: number;
  begin: number;
  end: number;
}

/** The arrows of the selection. One to a piece of a loop, whose last piece ends later, is upright. */
export function arrowsOf(details: Details | null, { tracks }: Tracks): Arrow[] {
  if (details === null) {
    return [];
  }
  const { record, dependences } = details;
  const lane = (name: string | null): number => tracks.findIndex(({ unit }) => unit === name);
  const track = lane(record.unit);
  return dependences.flatMap(({ role, unit, start, end }) => {
    const other = lane(unit);
    if (other < 0 || start === null || end === null) {
      return [];
    }
    const mine = role === "waits_for";
    const to = mine ? record.start : start;
    return [{ from: mine ? other : track, to: mine ? track : other, begin: Math.min(mine ? end : record.end, to), end: to }];
  });
}

function drawArrow(pen: Pen, fromX: number, from: number, toX: number, to: number): void {
  const down = to > from;
  const fromY = laneTop(from) + (down ? LANE : 0);
  const toY = laneTop(to) + (down ? 0 : LANE);
  const bend = down ? 14 : -14;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(fromX, fromY);
  pen.bezierCurveTo(fromX, fromY + bend, toX, toY - bend, toX, toY);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(toX, toY);
  pen.lineTo(toX - 4, toY + (down ? -6 : 6));
  pen.lineTo(toX + 4, toY + (down ? -6 : 6));
  pen.closePath();
  pen.fillStyle = pen.strokeStyle;
  pen.fill();
}

function drawMarkers(pen: Pen, { view, tracks, colours, pointer, width }: Scene, x: Place): void {
  const bottom = axisTop(tracks);
  const [m, n] = view.markers;
  pen.fillStyle = colours.accent;
  if (m !== null && n !== null) {
    // between the lanes, whose colours mean something
    pen.globalAlpha = 0.2;
    const left = x(Math.min(m, n));
    tracks.tracks.forEach((_, track) => {
      pen.fillRect(left, laneTop(track) - LABEL, x(Math.max(m, n)) - left, LABEL);
    });
    pen.globalAlpha = 1;
  }
  view.markers.forEach((cycle, which) => {
    if (cycle !== null) {
      const at = x(cycle);
      pen.fillRect(at - 1, LAYERS, 2, bottom - LAYERS);
      pen.fillText(which === 0 ? "m" : "n", at + (at > width - 14 ? -12 : 4), LAYERS + LABEL / 2 + 4);
    }
  });
  if (pointer !== null) {
    pen.fillStyle = colours.quiet;
    pen.fillRect(Math.round(x(pointer)), LAYERS, 1, bottom - LAYERS);
  }
}

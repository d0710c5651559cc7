/** The graph as SVG. */

import type { Box, Graph } from "./document";
import { HEIGHT, INSET, type Placed } from "./placing";

const SVG = "http://www.w3.org/2000/svg";
const WIDEST = 26; // letters of a name

export function shape<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Record<string, string | number>, ...children: Node[]): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, String(value));
  }
  made.append(...children);
  return made;
}

/** A name without the path that its neighbours share with it. */
export function shortName(name: string): string {
  const parts = name.split("/").filter((part) => part !== "");
  let short = parts.at(-1) ?? name;
  for (const part of parts.slice(0, -1).reverse()) {
    if (short.length + part.length + 1 > WIDEST) {
      break;
    }
    short = `${part}/${short}`;
  }
  return short.length > WIDEST ? `${short.slice(0, WIDEST - 1)}…` : short;
}

export function draw(graph: Graph, placed: Placed): { svg: SVGSVGElement; boxes: SVGGElement[] } {
  const svg = shape("svg", {
    xmlns: SVG,
    class: "graph-picture",
    viewBox: `0 0 ${placed.width} ${placed.height}`,
    width: placed.width,
    height: placed.height,
    role: "group",
    "aria-label": `Graph of ${graph.boxes.length} boxes; the table below has the same`,
  });
  const arrow = shape("marker", { id: "graph-arrow", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto", markerUnits: "userSpaceOnUse" }, shape("path", { class: "graph-head", d: "M0 0L6 3L0 6z" }));
  svg.append(shape("defs", {}, arrow));
  graph.edges.forEach((edge, number) => {
    const points = placed.edges[number] ?? [];
    const d = points.map(({ x, y }, index) => `${index === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    svg.append(shape("path", { class: "graph-edge", d, "marker-end": "url(#graph-arrow)", "stroke-width": thickness(edge.bytes).toFixed(1) }, titled(`${edge.tensor} ${edge.shape === null ? "" : `[${edge.shape.join(", ")}]`}`)));
  });
  const boxes = graph.boxes.map((box, number) => boxOf(box, number, placed));
  svg.append(...boxes);
  return { svg, boxes };
}

/** More for larger tensors, from 1 to 4. */
function thickness(bytes: number | null): number {
  return bytes === null ? 1 : Math.min(Math.max(Math.log10(bytes + 1) - 2.5, 1), 4);
}

function boxOf(box: Box, number: number, placed: Placed): SVGGElement {
  const { x, y, width, lines } = placed.boxes[number] ?? { x: 0, y: 0, width: 0, lines: ["", ""] };
  const left = x - width / 2;
  const top = y - HEIGHT / 2;
  return shape(
    "g",
    { class: "graph-box", role: "button", tabindex: -1, "data-box": number, "aria-label": `${box.name}: ${lines[1]}`, "aria-pressed": "false" },
    titled(box.name),
    shape("rect", { x: left, y: top, width, height: HEIGHT, rx: 5 }),
    labelled(left + INSET, top + 16, lines[0], "graph-name"),
    labelled(left + INSET, top + 30, lines[1], "graph-cost"),
  );
}

function labelled(x: number, y: number, text: string, kind: string): SVGTextElement {
  return shape("text", { x, y, class: kind }, document.createTextNode(text));
}

function titled(text: string): SVGTitleElement {
  return shape("title", {}, document.createTextNode(text));
}

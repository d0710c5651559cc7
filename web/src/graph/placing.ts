/** Where the boxes and edges of a graph lie, by dagre. */

import { graphlib, layout } from "@dagrejs/dagre";
import type { Graph } from "./document";

export const HEIGHT = 38;
export const INSET = 11;
const MANY = 400; // boxes from which a quicker way of ranking is taken

export interface Place {
  x: number;
  y: number;
  width: number;
  lines: [string, string];
}

export interface Placed {
  width: number;
  height: number;
  boxes: Place[];
  /** The points of each edge. */
  edges: { x: number; y: number }[][];
}

/** Lays the graph out from top to bottom; `lines` are the two lines of text in each box, `widthOf` their widths. */
export function place(graph: Graph, lines: [string, string][], widthOf: (lines: [string, string]) => number): Placed {
  const made = new graphlib.Graph({ multigraph: true });
  const ranker = graph.boxes.length > MANY ? "longest-path" : "network-simplex";
  made.setGraph({ rankdir: "TB", nodesep: 18, edgesep: 8, ranksep: 26, marginx: 8, marginy: 8, ranker });
  made.setDefaultEdgeLabel(() => ({}));
  const widths = lines.map((both) => widthOf(both) + 2 * INSET);
  graph.boxes.forEach((_, number) => made.setNode(String(number), { width: widths[number] ?? 0, height: HEIGHT }));
  graph.edges.forEach(({ source, target }, number) => made.setEdge(String(source), String(target), {}, String(number)));
  layout(made);
  const size = made.graph();
  return {
    width: Math.ceil(size.width ?? 0),
    height: Math.ceil(size.height ?? 0),
    boxes: graph.boxes.map((_, number) => {
      const { x, y } = made.node(String(number));
      return { x: x ?? 0, y: y ?? 0, width: widths[number] ?? 0, lines: lines[number] ?? ["", ""] };
    }),
    edges: graph.edges.map(({ source, target }, number) => made.edge(String(source), String(target), String(number)).points ?? []),
  };
}

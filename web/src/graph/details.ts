/** What is told of the selected box. */

import { apiUrl } from "../api";
import { element } from "../dom";
import { count, percent } from "../format";
import type { Box, Edge, Graph } from "./document";
import { bytes } from "./measures";

const MOST = 12; // nodes and tensors that are listed

export function detailsOf(graph: Graph, number: number, job: string, hasDocument: boolean, goTo: (number: number) => void): Node[] {
  const box = graph.boxes[number];
  if (box === undefined) {
    return [];
  }
  const into = graph.edges.filter(({ target }) => target === number);
  const out = graph.edges.filter(({ source }) => source === number);
  return [
    element("h2", {}, box.name),
    element("dl", { class: "facts" }, ...facts(box), ...tensors("reads", into, ({ source }) => source, goTo), ...tensors("gives", out, ({ target }) => target, goTo)),
    links(box, number, job),
    ...(hasDocument ? instructions(box, job) : []),
    ...nodes(box),
  ];
}

function facts(box: Box): Node[] {
  const told: [string, string][] = [["runs", { launch: "on the accelerator", host: "on the host", folded: "nowhere by itself", input: "–", output: "–" }[box.kind]]];
  const { cost } = box;
  if (cost !== null) {
    if (cost.cycles !== null) {
      told.push(["cycles", `${count(cost.cycles)}${cost.share === null ? "" : `, ${percent(cost.share)} of all`}`]);
    }
    if (cost.lower_bound !== null) {
      told.push(["bound", `${count(cost.lower_bound)} cycles`]);
    }
    told.push(["utilisation", percent(cost.utilisation)], ["over the bus", `${bytes(cost.bytes_read)} read, ${bytes(cost.bytes_written)} written`]);
  }
  if (box.constants > 0) {
    told.push(["constants", `${bytes(box.constants)}, as uploaded`]);
  }
  return told.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]);
}

function tensors(title: string, edges: Edge[], other: (edge: Edge) => number, goTo: (number: number) => void): Node[] {
  return edges.slice(0, MOST).flatMap((edge, index) => {
    const link = element("a", { href: `#box-${other(edge)}` }, edge.tensor);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      goTo(other(edge));
    });
    const shape = edge.shape === null ? "shape not known" : `${edge.type ?? ""}[${edge.shape.join(", ")}]`;
    return [element("dt", {}, index === 0 ? title : ""), element("dd", {}, link, ` ${shape}`)];
  });
}

function links(box: Box, number: number, job: string): Node {
  const found: [string, string][] = box.launches.map((launch) => [`Layer ${launch}`, `${apiUrl(`/jobs/${job}`)}#layer-${launch}`]);
  if (box.cost !== null && box.cost.begin !== null && box.cost.end !== null && box.cost.end > box.cost.begin) {
    found.push(["Timeline", apiUrl(`/jobs/${job}/timeline`, { begin: box.cost.begin, end: box.cost.end })]);
  }
  if (box.launches.length > 0) {
    found.push(["Passes", apiUrl(`/jobs/${job}/passes`, { layer: box.name })]);
  }
  found.push(["Row of the table", `#box-${number}`]);
  return element("p", { class: "actions" }, ...found.map(([text, href]) => element("a", { class: "button", href }, text)));
}

/** The instructions that its launches were busy with, each at its lines in the document. */
function instructions(box: Box, job: string): Node[] {
  const found = Object.entries(box.cost?.instructions ?? {});
  const items = found.map(([name, cycles]) =>
    element("li", {}, element("a", { href: `${apiUrl(`/jobs/${job}/accelerator`, { instruction: name })}#instruction-${encodeURIComponent(name)}` }, name), element("span", { class: "quiet" }, ` ${count(cycles)} cycles`)),
  );
  return items.length === 0 ? [] : [element("h3", {}, "Instructions"), element("ul", {}, ...items)];
}

function nodes(box: Box): Node[] {
  if (box.nodes.length === 0) {
    return [];
  }
  const items = box.nodes.slice(0, MOST).map(({ name, op, reason }) => element("li", {}, `${name} `, element("span", { class: "quiet" }, op), reason === null ? null : element("div", { class: "quiet small" }, reason)));
  const more = box.nodes.length > MOST ? [element("p", { class: "hint" }, `and ${box.nodes.length - MOST} more, in the table`)] : [];
  return [element("h3", {}, box.nodes.length === 1 ? "Node" : "Nodes"), element("ul", {}, ...items), ...more];
}

/** The selected instruction: what the trace says of it, whom it waits for, and who waits for it. */

import { apiUrl } from "../api";
import { button, element } from "../dom";
import { count, cycles, time } from "../format";
import type { Tracks } from "./window";

/** `GET /v1/jobs/ID/timeline/instructions/N`. */
export interface Details {
  record: {
    index: number;
    launch: string;
    unit: string;
    op: string;
    does: string;
    fields: Record<string, number>;
    start: number;
    end: number;
    waited_for: { cause: string; cycles: number; on: string; instruction?: number }[];
    origin: { nodes: string[]; function: string; site: number; pragma: string; stage: string } | null;
  };
  previous: number | null;
  next: number | null;
  dependences: Dependence[];
}

export interface Dependence {
  kind: "token" | "address" | "bus";
  /** The token queue, or the cause of the wait. */
  on: string;
  role: "waits_for" | "waited_for_by";
  instruction: number | null;
  unit: string | null;
  op: string | null;
  start: number | null;
  end: number | null;
}

/** Fills the panel with an instruction; `select` goes to another one. The call that it comes from is a link where the job has passes. */
export function showDetails(
  panel: HTMLElement,
  details: Details,
  tracks: Tracks,
  job: string,
  select: (instruction: number) => void,
): void {
  const { record } = details;
  const has = (view: string): boolean => panel.closest(`[data-${view}]`) !== null;
  const facts: [string, (Node | string)[]][] = [
    ["Cycles", [`${count(record.start)} to ${count(record.end)}: ${cycles(record.end - record.start)}, ${time(record.end - record.start, tracks.clock_mhz)}`]],
    ["Layer", layer(record, tracks, job, has("graph"))],
    ["Waited", waits(record.waited_for, tracks)],
    ["Waits for", others(details.dependences, "waits_for", job, select)],
    ["Waited for by", others(details.dependences, "waited_for_by", job, select)],
  ];
  if (record.does !== "") {
    facts.push(["Does", [element("code", {}, record.does)]]);
  }
  const fields = Object.entries(record.fields).map(([name, value]) => `${name}=${value}`);
  facts.push(["Fields", [fields.length > 0 ? element("code", {}, fields.join(" ")) : "none"]]);
  if (record.origin !== null) {
    const { nodes, function: made, site, pragma, stage } = record.origin;
    const said = `site ${site}${pragma === "" ? "" : `, ${pragma}`}, ${stage}`;
    const call = element("a", { href: `${apiUrl(`/jobs/${job}/passes`, { function: made, pass: stage, site })}#site-${site}-after` }, said);
    facts.push(["From", [`${nodes.join(", ") || "no node"}; `, element("code", {}, made), ", ", has("passes") ? call : said]]);
  }
  const step = (to: number | null, text: string, label: string): HTMLButtonElement => {
    const made = button(text, () => to !== null && select(to), label);
    made.disabled = to === null;
    return made;
  };
  const trace = apiUrl(`/v1/jobs/${job}/trace`, { cursor: record.index, limit: 1 });
  panel.replaceChildren(
    element("h2", {}, has("accelerator") ? instruction(record.op, job) : element("code", {}, record.op), ` on ${record.unit}, instruction ${count(record.index)}`),
    list(facts),
    element(
      "p",
      { class: "row" },
      step(details.previous, "Previous", "previous instruction of this unit, key ["),
      step(details.next, "Next", "next instruction of this unit, key ]"),
      element("a", { href: trace }, "its record as JSON"),
    ),
  );
  panel.hidden = false;
}

/** The instruction's lines in the document that the job ran on. */
function instruction(op: string, job: string): HTMLElement {
  const href = `${apiUrl(`/jobs/${job}/accelerator`, { instruction: op })}#instruction-${encodeURIComponent(op)}`;
  return element("a", { href, title: "its lines in the accelerator's document" }, element("code", {}, op));
}

/** The layer's row of the report, and its box of the graph. */
function layer(record: Details["record"], tracks: Tracks, job: string, graph: boolean): (Node | string)[] {
  const number = tracks.launches.findIndex(({ begin, end }) => begin <= record.start && record.start < end) + 1;
  if (number === 0) {
    return [record.launch];
  }
  const row = element("a", { href: `${apiUrl(`/jobs/${job}`)}#layer-${number}` }, record.launch);
  return graph ? [row, ", ", element("a", { href: apiUrl(`/jobs/${job}/graph`, { layer: number }) }, "in the graph")] : [row];
}

function list(facts: [string, (Node | string)[]][]): HTMLElement {
  const made = element("dl", { class: "facts" });
  for (const [term, said] of facts) {
    made.append(element("dt", {}, term), element("dd", {}, ...said));
  }
  return made;
}

function waits(waited: Details["record"]["waited_for"], tracks: Tracks): string[] {
  const found = waited.map(({ on, cycles: lost }) => `${cycles(lost)} for ${on} (${time(lost, tracks.clock_mhz)})`);
  return [found.length > 0 ? found.join(", ") : "for nothing"];
}

/** The instructions that this one waits for, or that wait for it: each a link that selects it. */
function others(dependences: Dependence[], role: Dependence["role"], job: string, select: (instruction: number) => void): (Node | string)[] {
  const lines = dependences
    .filter((each) => each.role === role)
    .map(({ kind, on, instruction, op, end, start }) => {
      if (instruction === null) {
        return element("li", {}, role === "waits_for" ? `a token of ${on} that was there at the start` : `nothing takes the token that it sends to ${on}`);
      }
      const other = element("a", { href: apiUrl(`/jobs/${job}/timeline`, { select: instruction }) }, `instruction ${count(instruction)} (${op ?? ""})`);
      other.addEventListener("click", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) {
          event.preventDefault();
          select(instruction);
        }
      });
      const mine = role === "waits_for";
      const what = kind === "token" ? `a token of ${on}` : kind === "bus" ? "the bus" : mine ? "its addresses" : "addresses of this one";
      return element("li", {}, other, `, for ${what}: it ${mine ? `ended at cycle ${count(end ?? 0)}` : `${kind === "bus" ? "started" : "starts"} at cycle ${count(start ?? 0)}`}`);
    });
  return lines.length === 0 ? ["none"] : [element("ul", { class: "plain" }, ...lines)];
}

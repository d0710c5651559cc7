/** The answer of `GET /v1/jobs/{id}/graph`. */

export interface Cost {
  cycles: number | null;
  share: number | null;
  lower_bound: number | null;
  macs: number;
  utilisation: number;
  bytes_read: number;
  bytes_written: number;
  begin: number | null;
  end: number | null;
  instructions: Record<string, number>;
}

export interface Box {
  kind: "launch" | "host" | "folded" | "input" | "output";
  name: string;
  op: string | null;
  launches: number[];
  nodes: { name: string; op: string; reason: string | null }[];
  constants: number;
  cost: Cost | null;
}

export interface Edge {
  source: number;
  target: number;
  tensor: string;
  shape: number[] | null;
  type: string | null;
  bytes: number | null;
}

export interface Graph {
  boxes: Box[];
  edges: Edge[];
}

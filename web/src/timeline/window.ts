/** A window of the timeline, as `GET /v1/jobs/ID/timeline` answers it: docs/timeline.md has the format. */

const MAGIC = 0x4c545943; // "CYTL"
const VERSION = 2;
const HEADER = 40;

/** What the numbers of windows stand for: `GET /v1/jobs/ID/timeline/tracks`. */
export interface Tracks {
  accelerator: string;
  clock_mhz: number;
  cycles: number;
  instructions: number;
  categories: { name: string; kind: string }[];
  tracks: { unit: string; cycles: Record<string, number> }[];
  operations: { name: string; unit: string }[];
  launches: { name: string; begin: number; end: number }[];
  hosts: { name: string; cycle: number }[];
  memories: { name: string; elements: number; element_bytes: number }[];
}

/** One record: a slice, or a sum of slices of one category in one bin. */
export interface Slice {
  merged: boolean;
  begin: number;
  cycles: number;
  instruction: number;
  count: number;
  operation: number;
  category: number;
}

/** The number of the bin that a cycle lies in, counted from the window's begin; exact, as edges are rounded down. */
export function binOf(offset: number, span: number, bins: number): number {
  return Math.ceil(((offset + 1) * bins) / span) - 1;
}

export class Window {
  readonly begin: number;
  readonly end: number;
  readonly bins: number;
  /** How many records there are, and how many of them are slices: the first. */
  readonly records: number;
  readonly slices: number;
  /** Cycles of each track, bin and category. */
  readonly cycles: Uint32Array<ArrayBuffer>;
  /** The most elements that are full of each memory and bin. */
  private readonly full: Uint32Array;
  private readonly start: Uint32Array;
  private readonly length: Uint32Array;
  private readonly instruction: Uint32Array;
  private readonly count: Uint32Array;
  private readonly operation: Uint16Array;
  private readonly track: Uint8Array;
  private readonly category: Uint8Array;

  constructor(
    data: ArrayBuffer,
    readonly tracks: number,
    readonly categories: number,
    /** The sums, where they are known from the same data. */
    sums?: Uint32Array<ArrayBuffer>,
  ) {
    const head = new DataView(data);
    if (data.byteLength < HEADER || head.getUint32(0, true) !== MAGIC || head.getUint32(4, true) !== VERSION) {
      throw new Error("the server's timeline is of another version than this page: load it again");
    }
    this.begin = Number(head.getBigUint64(8, true));
    this.end = Number(head.getBigUint64(16, true));
    this.bins = head.getUint32(24, true);
    this.slices = head.getUint32(28, true);
    const records = (this.records = this.slices + head.getUint32(32, true));
    let at = HEADER;
    const column = (bytes: number): number => {
      const begin = at;
      at += Math.ceil((records * bytes) / 4) * 4;
      return begin;
    };
    this.start = new Uint32Array(data, column(4), records);
    this.length = new Uint32Array(data, column(4), records);
    this.instruction = new Uint32Array(data, column(4), records);
    this.count = new Uint32Array(data, column(4), records);
    this.operation = new Uint16Array(data, column(2), records);
    this.track = new Uint8Array(data, column(1), records);
    this.category = new Uint8Array(data, column(1), records);
    this.full = new Uint32Array(data, at, this.bins * head.getUint32(36, true));
    this.cycles = sums ?? this.summed();
  }

  get span(): number {
    return this.end - this.begin;
  }

  /** Cycles a bin, on average. */
  get step(): number {
    return this.span / this.bins;
  }

  covers(begin: number, end: number): boolean {
    return this.begin <= begin && end <= this.end;
  }

  /** The first cycle of a bin, counted from the window's begin. */
  edge(bin: number): number {
    return Math.floor((bin * this.span) / this.bins);
  }

  bin(cycle: number): number {
    const offset = Math.floor(cycle) - this.begin;
    return Math.min(Math.max(binOf(offset, this.span, this.bins), 0), this.bins - 1);
  }

  /** Where the sums of a bin begin in `cycles`. */
  cell(track: number, bin: number): number {
    return (track * this.bins + bin) * this.categories;
  }

  /** The most elements of a memory that are full at a time within a bin. */
  held(memory: number, bin: number): number {
    return this.full[memory * this.bins + bin] ?? 0;
  }

  slice(record: number): Slice & { track: number } {
    return {
      merged: record >= this.slices,
      begin: this.begin + (this.start[record] ?? 0),
      cycles: this.length[record] ?? 0,
      instruction: this.instruction[record] ?? 0,
      count: this.count[record] ?? 0,
      operation: this.operation[record] ?? 0,
      category: this.category[record] ?? 0,
      track: this.track[record] ?? 0,
    };
  }

  /** The slice that covers a cycle, and the sums of its bin. */
  at(track: number, cycle: number): Slice[] {
    const offset = Math.floor(cycle) - this.begin;
    const edge = this.edge(this.bin(cycle));
    const found: Slice[] = [];
    for (let record = 0; record < this.records; record++) {
      if (this.track[record] !== track) {
        continue;
      }
      const start = this.start[record] ?? 0;
      const here = record < this.slices ? start <= offset && offset < start + (this.length[record] ?? 0) : start === edge;
      if (here) {
        found.push(this.slice(record));
      }
    }
    return found;
  }

  /** Calls `visit` with each slice that is its own record, has `least` cycles, and lies in part within the view. */
  visit(begin: number, end: number, least: number, visit: (slice: Slice & { track: number }) => void): void {
    const from = begin - this.begin;
    const to = end - this.begin;
    for (let record = 0; record < this.slices; record++) {
      const start = this.start[record] ?? 0;
      const length = this.length[record] ?? 0;
      if (length >= least && start < to && start + length > from) {
        visit(this.slice(record));
      }
    }
  }

  private summed(): Uint32Array<ArrayBuffer> {
    const { span, bins } = this;
    const sums = new Uint32Array(this.tracks * bins * this.categories);
    for (let record = 0; record < this.records; record++) {
      const start = this.start[record] ?? 0;
      const end = start + (this.length[record] ?? 0);
      const track = this.track[record] ?? 0;
      const category = this.category[record] ?? 0;
      let bin = binOf(start, span, bins);
      if (record >= this.slices) {
        const cell = this.cell(track, bin) + category;
        sums[cell] = (sums[cell] ?? 0) + end - start;
        continue;
      }
      for (let from = start; from < end; bin++) {
        const to = Math.min(end, this.edge(bin + 1));
        const cell = this.cell(track, bin) + category;
        sums[cell] = (sums[cell] ?? 0) + to - from;
        from = to;
      }
    }
    return sums;
  }
}

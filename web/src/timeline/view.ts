/** What part of the timeline is shown, what is selected and marked, and the same in the page's address. */

/** The fewest cycles that a view shows. */
const LEAST = 8;
const NAMES = ["begin", "end", "select", "m", "n"] as const;

export class View {
  begin = 0;
  end: number;
  selected: number | null = null;
  /** Cycles of the two markers. */
  readonly markers: [number | null, number | null] = [null, null];

  constructor(readonly last: number) {
    this.end = Math.max(last, 1);
  }

  get span(): number {
    return this.end - this.begin;
  }

  get least(): number {
    return Math.min(LEAST, Math.max(this.last, 1));
  }

  /** Shows these cycles, moved into the timeline, and no fewer than can be drawn. */
  show(begin: number, end: number): void {
    const span = Math.min(Math.max(end - begin, this.least), Math.max(this.last, 1));
    const middle = (begin + end) / 2;
    this.begin = Math.min(Math.max(end - begin < span ? middle - span / 2 : begin, 0), Math.max(this.last, 1) - span);
    this.end = this.begin + span;
  }

  zoom(factor: number, around = (this.begin + this.end) / 2): void {
    const span = Math.min(Math.max(this.span * factor, this.least), Math.max(this.last, 1));
    const share = (around - this.begin) / this.span;
    this.show(around - share * span, around - share * span + span);
  }

  pan(by: number): void {
    const begin = Math.min(Math.max(this.begin + by, 0), Math.max(this.last, 1) - this.span);
    this.show(begin, begin + this.span);
  }

  /** Brings a slice into view, at a size at which it can be seen. */
  reveal(begin: number, end: number): void {
    const length = Math.max(end - begin, 1);
    const fits = length >= this.span / 400 && length <= this.span;
    if (fits && begin >= this.begin && end <= this.end) {
      return;
    }
    const span = fits ? this.span : length * 8;
    const middle = (begin + end) / 2;
    this.show(middle - span / 2, middle + span / 2);
  }

  /** Puts a marker, or takes both away; the second click with Shift sets the second one. */
  mark(which: 0 | 1, cycle: number | null): void {
    this.markers[which] = cycle === null ? null : Math.min(Math.max(Math.round(cycle), 0), this.last);
  }

  /** Reads the state from an address; what is missing or makes no sense stays as it is. */
  read(search: string): void {
    const query = new URLSearchParams(search);
    const [begin, end, select, m, n] = NAMES.map((name) => {
      const text = query.get(name);
      return text !== null && /^\d{1,16}$/.test(text) ? Number(text) : null;
    });
    if (begin != null && end != null && begin < end && begin < this.last) {
      this.show(begin, Math.min(end, this.last));
    }
    this.selected = select ?? null;
    this.mark(0, m ?? null);
    this.mark(1, n ?? null);
  }

  /** Returns the address' query with this state, and whatever else it says. */
  write(search: string): string {
    const query = new URLSearchParams(search);
    const whole = this.begin <= 0 && this.end >= this.last;
    const state = {
      begin: whole ? null : Math.floor(this.begin),
      end: whole ? null : Math.ceil(this.end),
      select: this.selected,
      m: this.markers[0],
      n: this.markers[1],
    };
    for (const name of NAMES) {
      const value = state[name];
      if (value === null) {
        query.delete(name);
      } else {
        query.set(name, String(value));
      }
    }
    return query.toString();
  }
}

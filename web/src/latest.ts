/** Requests that follow what somebody types: after a pause, of the newest input alone, and again when the service is busy. */

import { ApiError } from "./api";

export interface Handlers<Input, Output> {
  /** Milliseconds without a change before a request is made. */
  pause: number;
  /** Asks; what `signal` aborts is not heard. Without `abort` one request is under way at a time, and ends. */
  ask: (input: Input, signal: AbortSignal) => Promise<Output>;
  abort: boolean;
  answered: (output: Output, input: Input) => void;
  failed: (error: unknown) => void;
  /** The service is busy; it is asked again in so many seconds. */
  waits: (seconds: number) => void;
}

const LONGEST_WAIT = 60;
const WAIT = 5;

export class Latest<Input, Output> {
  private timer = 0;
  private notBefore = 0; // a time of `performance.now()`: the service has asked for so long a pause
  private wanted: { input: Input } | null = null;
  private running: AbortController | null = null;

  constructor(private readonly handlers: Handlers<Input, Output>) {}

  /** Asks about this input once nothing newer has come for a while. */
  ask(input: Input): void {
    this.wanted = { input };
    if (this.handlers.abort) {
      this.running?.abort();
    }
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      void this.run();
    }, Math.max(this.handlers.pause, this.notBefore - performance.now()));
  }

  /** Forgets what was asked. */
  drop(): void {
    this.wanted = null;
    window.clearTimeout(this.timer);
    this.timer = 0;
    this.running?.abort();
  }

  private async run(): Promise<void> {
    if ((this.running !== null && !this.handlers.abort) || this.wanted === null) {
      return; // the one that runs goes on with what is wanted then
    }
    const { input } = this.wanted;
    const running = new AbortController();
    this.running = running;
    this.wanted = null;
    try {
      const output = await this.handlers.ask(input, running.signal);
      if (this.wanted === null && !running.signal.aborted) {
        this.handlers.answered(output, input);
      }
    } catch (error) {
      this.fail(error, input, running.signal);
    }
    if (this.running === running) {
      this.running = null;
      if (this.wanted !== null && this.timer === 0) {
        void this.run();
      }
    }
  }

  private fail(error: unknown, input: Input, signal: AbortSignal): void {
    if (this.wanted !== null || signal.aborted) {
      return; // it was of something older
    }
    if (error instanceof ApiError && error.passes) {
      const seconds = Math.min(error.retryAfter ?? WAIT, LONGEST_WAIT);
      this.notBefore = performance.now() + 1000 * seconds;
      this.handlers.waits(seconds);
      this.ask(input);
    } else {
      this.handlers.failed(error);
    }
  }
}

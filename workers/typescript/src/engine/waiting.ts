/** A flag that others wait for. */
export class Signal {
  #controller = new AbortController();

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isSet(): boolean {
    return this.#controller.signal.aborted;
  }

  set(): void {
    this.#controller.abort();
  }
}

/** Wakes whoever waits, again and again. */
export class Bell {
  #ring: () => void = () => {};
  #rung: Promise<void>;

  constructor() {
    this.#rung = new Promise((resolve) => {
      this.#ring = resolve;
    });
  }

  ring(): void {
    const ring = this.#ring;
    this.#rung = new Promise((resolve) => {
      this.#ring = resolve;
    });
    ring();
  }

  /** The next ring. */
  get rung(): Promise<void> {
    return this.#rung;
  }
}

/** Resolves after so long, or when a signal comes; whether the time went by. */
export function sleep(ms: number, ...signals: AbortSignal[]): Promise<boolean> {
  return race(ms, [], ...signals);
}

/** As `sleep`, or when one of the promises is kept. */
export function race(ms: number, promises: Promise<unknown>[], ...signals: AbortSignal[]): Promise<boolean> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const done = (byTime: boolean) => {
      clearTimeout(timer);
      for (const signal of signals) {
        signal.removeEventListener("abort", onAbort);
      }
      resolve(byTime);
    };
    const onAbort = () => done(false);
    if (signals.some((signal) => signal.aborted)) {
      resolve(false);
      return;
    }
    for (const signal of signals) {
      signal.addEventListener("abort", onAbort, { once: true });
    }
    if (Number.isFinite(ms)) {
      timer = setTimeout(() => done(true), Math.max(0, ms));
    }
    for (const promise of promises) {
      promise.then(() => done(false));
    }
  });
}

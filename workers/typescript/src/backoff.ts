/** Doubling waits with jitter, so that many workers do not come back in the same instant. */
export class Backoff {
  #next: number;

  constructor(
    readonly first: number,
    readonly most: number,
  ) {
    this.#next = first;
  }

  reset(): void {
    this.#next = this.first;
  }

  /** Milliseconds to wait, between half and all of the current bound; not less than what the server asked for. */
  next(atLeast = 0): number {
    const wait = jittered(this.#next, 0.5, 1);
    this.#next = Math.min(this.#next * 2, this.most);
    return Math.max(wait, atLeast);
  }
}

export function jittered(span: number, from: number, to: number): number {
  return span * (from + Math.random() * (to - from));
}

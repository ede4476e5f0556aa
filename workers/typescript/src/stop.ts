/** Why a handler is asked to stop, the gravest last. From Lost on its outcome is worthless and dropped. */
export enum Stop {
  None = 0,
  /** It ran longer than its run timeout. */
  TimedOut = 1,
  /** The worker leaves and waits no longer. */
  Leaving = 2,
  /** Somebody cancelled the job. */
  Cancel = 3,
  /** The coordinator says that the lease is gone. */
  Lost = 4,
  /** No beat was answered for the session's TTL. */
  Expired = 5,
  /** The session ended. */
  SessionGone = 6,
}

/** The reason of a lease's AbortSignal. */
export class Stopped extends Error {
  override readonly name = "AbortError";

  constructor(readonly reason: Stop) {
    super(`the handler is asked to stop: ${Stop[reason]}`);
  }
}

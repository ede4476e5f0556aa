/** Each type and window is worth one warning in the life of a process. */
const warned = new Set<string>();

/**
 * By how many milliseconds a target forgets a key too early: it is sent for the last time up to `totalMs` (Infinity: there
 * is no total timeout) and `redriveMs` after the first. 0: early enough.
 */
export function windowShortfallMs(windowMs: number, totalMs: number, redriveMs: number): number {
  return Math.max(0, totalMs + redriveMs - windowMs);
}

/** What to warn of; undefined: the target remembers keys for long enough, or it was said before. */
export function windowWarning(type: string, windowMs: number, totalMs: number, redriveMs: number): string | undefined {
  const shortMs = windowShortfallMs(windowMs, totalMs, redriveMs);
  const told = `${windowMs} ${type}`;
  if (shortMs === 0 || warned.has(told)) {
    return undefined;
  }
  warned.add(told);
  const window = windowMs / 1_000;
  return shortMs === Number.POSITIVE_INFINITY
    ? `job type ${JSON.stringify(type)} has no total timeout, and its target forgets idempotency keys after ${window} s: ` +
        "an attempt after that is a second effect; give its jobs a total timeout"
    : `job type ${JSON.stringify(type)}: its target forgets idempotency keys after ${window} s, ` +
        `${Math.round(shortMs / 1_000)} s before the last possible attempt, redrives included: an attempt after that is a ` +
        "second effect; give its jobs a shorter total timeout";
}

/** @internal Says everything again. */
export function forgetWarnings(): void {
  warned.clear();
}

/** Client and worker of Rota, the durable job scheduler. */
export { Client, type ClientOptions, type JobFilter } from "./client.js";
export type { EndpointOptions, Tls } from "./endpoint.js";
export { RotaError, type Violation } from "./errors.js";
export {
  type Attempt,
  AttemptOutcome,
  CancelMode,
  DedupeConflict,
  DedupeScope,
  EffectState,
  isTerminal,
  type Job,
  JobState,
  type NewJob,
} from "./job.js";
export type { Lease } from "./lease.js";
export type { LogLevel } from "./messages.js";
export { Cancelled, EffectUnknown, Failed, Fatal, Release, Retry } from "./outcome.js";
export { Payload } from "./payload.js";
export type { Count } from "./shared.js";
export { Stop, Stopped } from "./stop.js";
export { VERSION } from "./version.js";
export { type Handler, Worker, type WorkerOptions } from "./worker.js";

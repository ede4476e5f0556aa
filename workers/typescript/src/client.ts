import { randomUUID } from "node:crypto";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Channel } from "./channel.js";
import { type EndpointOptions, resolve } from "./endpoint.js";
import { JobService } from "./gen/rota/v1/jobs_pb.js";
import {
  type Attempt,
  attemptOf,
  CancelMode,
  createRequest,
  isTerminal,
  type Job,
  JobState,
  jobName,
  jobOf,
  type NewJob,
} from "./job.js";
import * as limits from "./limits.js";
import { creating } from "./telemetry.js";

export interface ClientOptions extends EndpointOptions {
  /** For each call; default 30 s. */
  timeoutMs?: number;
}

export interface CallControl {
  signal?: AbortSignal;
}

/** Which jobs to list: those that meet all that is set. */
export interface JobFilter extends CallControl {
  queue?: string;
  type?: string;
  state?: JobState;
  labels?: Record<string, string>;
}

/**
 * Creates, reads and steers jobs. Connects at the first call. UNAVAILABLE is retried by gRPC, up to four attempts;
 * creations carry a request_id, so that a repetition creates nothing twice. Every method rejects with a RotaError.
 */
export class Client {
  readonly #channel: Channel;
  readonly #timeoutMs: number;

  constructor(options: ClientOptions = {}) {
    this.#channel = new Channel(resolve(options));
    this.#timeoutMs = options.timeoutMs ?? limits.CALL_TIMEOUT_MS;
  }

  /** Closes the connection. */
  close(): void {
    this.#channel.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Any unary call of the contract, for what this client does not wrap: see gen/rota/v1 and gen/rota/admin/v1. */
  call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    { signal, metadata }: CallControl & { metadata?: Record<string, string> } = {},
  ): Promise<MessageShape<O>> {
    return this.#channel.unary(method, request, {
      timeoutMs: this.#timeoutMs,
      ...(signal ? { signal } : {}),
      ...(metadata ? { metadata } : {}),
    });
  }

  /** Creates a job, durable when this resolves. Under the same `requestId` nothing is created twice within 7 days. */
  async createJob(job: NewJob, { requestId, signal }: CallControl & { requestId?: string } = {}): Promise<Job> {
    const request = createRequest(job);
    request.requestId = requestId ?? randomUUID();
    const answer = await creating(job.type, 1, (metadata) =>
      this.call(JobService.method.createJob, request, { metadata, ...(signal ? { signal } : {}) }),
    );
    return jobOf(answer.job, answer.existing);
  }

  /** Creates up to 1,000 jobs in one transaction: all or none. */
  async createJobs(jobs: NewJob[], { requestId, signal }: CallControl & { requestId?: string } = {}): Promise<Job[]> {
    const first = jobs[0];
    if (first === undefined || jobs.length > limits.BATCH_JOBS_MAX) {
      throw new RangeError(
        `expected 1 to ${limits.BATCH_JOBS_MAX} jobs, found ${jobs.length}; a batch is atomic, so split it yourself`,
      );
    }
    const request = { requests: jobs.map(createRequest), requestId: requestId ?? randomUUID() };
    const answer = await creating(first.type, jobs.length, (metadata) =>
      this.call(JobService.method.batchCreateJobs, request, { metadata, ...(signal ? { signal } : {}) }),
    );
    return answer.jobs.map((job) => jobOf(job));
  }

  /** Reads one job, live or finished, by its id or name. */
  async getJob(job: string, control: CallControl = {}): Promise<Job> {
    return jobOf((await this.call(JobService.method.getJob, { name: jobName(job) }, control)).job);
  }

  /** Cancels a job; the mode says what that does to one that runs. Repeating it is safe. */
  async cancelJob(
    job: string,
    {
      mode = CancelMode.COOPERATIVE,
      reason = "",
      ...control
    }: CallControl & { mode?: CancelMode; reason?: string } = {},
  ): Promise<Job> {
    return jobOf((await this.call(JobService.method.cancelJob, { name: jobName(job), mode, reason }, control)).job);
  }

  /** Waits until a job is terminal, or until the signal aborts. */
  async waitJob(job: string, control: CallControl = {}): Promise<Job> {
    const request = { name: jobName(job), timeout: durationFromMs(limits.WAIT_JOB_MAX_MS) };
    for (;;) {
      const found = jobOf((await this.call(JobService.method.waitJob, request, control)).job);
      if (isTerminal(found)) {
        return found;
      }
      control.signal?.throwIfAborted();
    }
  }

  /** Lists jobs, newest first, page by page as they are asked for. */
  async *listJobs({
    queue = "",
    type = "",
    state = JobState.UNSPECIFIED,
    labels = {},
    ...control
  }: JobFilter = {}): AsyncGenerator<Job> {
    let pageToken = "";
    do {
      const request = { pageSize: limits.BATCH_JOBS_MAX, pageToken, queue, type, state, labels };
      const page = await this.call(JobService.method.listJobs, request, control);
      for (const job of page.jobs) {
        yield jobOf(job);
      }
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** Lists the grants of a job. */
  async listAttempts(job: string, control: CallControl = {}): Promise<Attempt[]> {
    const found: Attempt[] = [];
    let pageToken = "";
    do {
      const request = { parent: jobName(job), pageSize: limits.BATCH_JOBS_MAX, pageToken };
      const page = await this.call(JobService.method.listAttempts, request, control);
      found.push(...page.attempts.map(attemptOf));
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }
}

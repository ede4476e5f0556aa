import { fromBinary } from "@bufbuild/protobuf";
import { anyUnpack, type Duration } from "@bufbuild/protobuf/wkt";
import { status as Code, type ServiceError } from "@grpc/grpc-js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { type Status, StatusSchema } from "./gen/google/rpc/status_pb.js";

const DOMAIN = "rota";
const DETAILS_KEY = "grpc-status-details-bin";

/** One field that was refused, by its path in the request, and why. */
export interface Violation {
  readonly field: string;
  readonly description: string;
}

/**
 * A refusal or failure of Rota's. Decide by `code` or `reason`, one of the catalogue in rota/v1/errors.proto; messages are
 * for people and may change.
 */
export class RotaError extends Error {
  override readonly name = "RotaError";

  constructor(
    /** gRPC's status code. */
    readonly code: number,
    /** Stable, and empty when nobody gave one. */
    readonly reason: string,
    message: string,
    /** Texts by name, for example the current fence. */
    readonly details: Readonly<Record<string, string>> = {},
    /** What the server asks for; 0 when it does not. */
    readonly retryAfterMs = 0,
    readonly violations: readonly Violation[] = [],
  ) {
    super(`${reason || Code[code]}: ${message}${violations.map((v) => `\n  ${v.field}: ${v.description}`).join("")}`);
  }

  /** The job has a newer grant. Final: drop the work. */
  get isStaleFence(): boolean {
    return this.reason === "STALE_FENCE";
  }

  /** The session expired, was closed or never was; its leases are lost. */
  get isSessionGone(): boolean {
    return this.code === Code.NOT_FOUND && (this.reason === "SESSION_GONE" || this.reason === "");
  }

  /** Whether the same call may succeed a moment later. */
  get isTransient(): boolean {
    switch (this.code) {
      case Code.UNAVAILABLE:
      case Code.DEADLINE_EXCEEDED:
      case Code.UNKNOWN:
      case Code.INTERNAL:
      case Code.CANCELLED:
      case Code.DATA_LOSS:
        return true;
      case Code.RESOURCE_EXHAUSTED:
        return this.reason !== "QUOTA_EXCEEDED";
      case Code.ABORTED:
        return this.reason === "SHARD_MOVED";
      default:
        return false;
    }
  }
}

/** The error of a failed call, with what the server said in detail. */
export function fromRpc(error: unknown): RotaError {
  const { code, details, metadata } = error as ServiceError;
  if (typeof code !== "number") {
    return new RotaError(Code.UNKNOWN, "", String((error as Error)?.message ?? error));
  }
  const packed = metadata?.get(DETAILS_KEY)[0];
  if (packed instanceof Buffer) {
    try {
      const found = fromBinary(StatusSchema, packed);
      if (found.code === code) {
        return fromStatus(found);
      }
    } catch {
      // Details that cannot be read say nothing.
    }
  }
  return new RotaError(code, "", details || Code[code] || "");
}

export function fromStatus(found: Status): RotaError {
  let reason = "";
  let details: Record<string, string> = {};
  let retryAfterMs = 0;
  const violations: Violation[] = [];
  for (const any of found.details) {
    const info = anyUnpack(any, ErrorInfoSchema);
    if (info?.domain === DOMAIN) {
      reason = info.reason;
      details = info.metadata;
    }
    retryAfterMs ||= milliseconds(anyUnpack(any, RetryInfoSchema)?.retryDelay);
    for (const { field, description } of anyUnpack(any, BadRequestSchema)?.fieldViolations ?? []) {
      violations.push({ field, description });
    }
  }
  return new RotaError(found.code, reason, found.message, details, retryAfterMs, violations);
}

export function milliseconds(span: Duration | undefined): number {
  return span === undefined ? 0 : Number(span.seconds) * 1_000 + span.nanos / 1e6;
}

import {
  create,
  type DescMessage,
  type DescMethodBiDiStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { type ChannelOptions, Client, type ClientDuplexStream, Metadata } from "@grpc/grpc-js";
import { type Endpoint, trust } from "./endpoint.js";
import { fromRpc } from "./errors.js";
import * as limits from "./limits.js";
import { SDK } from "./version.js";

const WORKER = "rota.worker.v1.WorkerService";
const RETRY = {
  maxAttempts: 4,
  initialBackoff: "0.1s",
  maxBackoff: "1s",
  backoffMultiplier: 2,
  retryableStatusCodes: ["UNAVAILABLE"],
};
// Streams that break are the SDK's own to mend: it must tell its inventory on the new one. So are polls, which must not
// arrive after the word that the worker leaves.
const SERVICE_CONFIG = JSON.stringify({
  methodConfig: [
    {
      name: [
        { service: WORKER, method: "Heartbeat" },
        { service: WORKER, method: "Lease" },
      ],
    },
    { name: [{}], retryPolicy: RETRY },
  ],
});
const WAITS_FOR_READY = new Set(["SendHeartbeat", "Heartbeat"]);

export interface CallOptions {
  timeoutMs: number;
  signal?: AbortSignal;
  /** More metadata, for example a trace context. */
  metadata?: Readonly<Record<string, string>>;
}

/** A connection, opened at the first call. */
export class Channel {
  readonly #client: Client;

  constructor(readonly endpoint: Endpoint) {
    const options: ChannelOptions = {
      "grpc.primary_user_agent": SDK,
      "grpc.keepalive_time_ms": limits.KEEPALIVE_MS,
      "grpc.keepalive_timeout_ms": limits.KEEPALIVE_TIMEOUT_MS,
      "grpc.max_receive_message_length": limits.RECEIVE_BYTES_MAX,
      "grpc.max_send_message_length": -1,
      "grpc.initial_reconnect_backoff_ms": limits.CONNECT_BACKOFF_FIRST_MS,
      "grpc.max_reconnect_backoff_ms": limits.CONNECT_BACKOFF_MOST_MS,
      // Channels with equal settings share their connections by default; a new channel must mean a new one.
      "grpc.use_local_subchannel_pool": 1,
      "grpc.enable_http_proxy": endpoint.loopback ? 0 : 1,
      "grpc.service_config": SERVICE_CONFIG,
    };
    this.#client = new Client(endpoint.target, trust(endpoint), options);
  }

  close(): void {
    this.#client.close();
  }

  /** One call. Rejects with a RotaError. */
  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions,
  ): Promise<MessageShape<O>> {
    const { signal } = options;
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        path(method),
        (message: MessageShape<I>) => Buffer.from(toBinary(method.input, message)),
        (bytes: Buffer) => fromBinary(method.output, bytes),
        create(method.input, request),
        this.#metadata(method.name, options.metadata),
        { deadline: Date.now() + options.timeoutMs },
        (error, answer) => {
          signal?.removeEventListener("abort", cancel);
          if (error !== null || answer === undefined) {
            reject(fromRpc(error));
          } else {
            resolve(answer);
          }
        },
      );
      function cancel(): void {
        call.cancel();
      }
      if (signal?.aborted) {
        cancel();
      } else {
        signal?.addEventListener("abort", cancel, { once: true });
      }
    });
  }

  /** A stream in both directions. */
  stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodBiDiStreaming<I, O>,
  ): ClientDuplexStream<MessageShape<I>, MessageShape<O>> {
    return this.#client.makeBidiStreamRequest(
      path(method),
      (message: MessageShape<I>) => Buffer.from(toBinary(method.input, message)),
      (bytes: Buffer) => fromBinary(method.output, bytes),
      this.#metadata(method.name),
    );
  }

  #metadata(method: string, more: Readonly<Record<string, string>> = {}): Metadata {
    const metadata = new Metadata({ waitForReady: WAITS_FOR_READY.has(method) });
    if (this.endpoint.apiKey) {
      metadata.set("authorization", `Bearer ${this.endpoint.apiKey}`);
    }
    for (const [key, value] of Object.entries(more)) {
      metadata.set(key, value);
    }
    return metadata;
  }
}

function path(method: { parent: { typeName: string }; name: string }): string {
  return `/${method.parent.typeName}/${method.name}`;
}

import { create } from "@bufbuild/protobuf";
import { type Payload as Message, PayloadSchema } from "./gen/rota/v1/common_pb.js";

/** Bytes that Rota keeps and delivers exactly as sent, and a media type that it never reads. */
export class Payload {
  constructor(
    readonly data: Uint8Array = new Uint8Array(),
    readonly contentType = "",
  ) {}

  /**
   * A Payload as it is, bytes as they are, a string as UTF-8 text, undefined and null as nothing, anything else as JSON.
   * Throws a TypeError where JSON has no form for it.
   */
  static of(value: unknown): Payload {
    if (value instanceof Payload) {
      return value;
    }
    if (value === undefined || value === null) {
      return new Payload();
    }
    if (value instanceof Uint8Array) {
      return new Payload(value, "application/octet-stream");
    }
    if (typeof value === "string") {
      return new Payload(Buffer.from(value), "text/plain; charset=utf-8");
    }
    const json = JSON.stringify(value);
    if (json === undefined) {
      throw new TypeError(
        `payload: expected bytes, a string, a Payload or a value with a JSON form, found ${typeof value}`,
      );
    }
    return new Payload(Buffer.from(json), "application/json");
  }

  static from(message: Message | undefined): Payload {
    return new Payload(message?.data, message?.contentType);
  }

  text(): string {
    return Buffer.from(this.data).toString("utf8");
  }

  /** The data as JSON; undefined when there is none. Throws a SyntaxError. */
  json<T = unknown>(): T {
    return (this.data.length > 0 ? JSON.parse(this.text()) : undefined) as T;
  }

  message(): Message | undefined {
    if (this.data.length === 0 && this.contentType === "") {
      return undefined;
    }
    return create(PayloadSchema, { data: this.data, contentType: this.contentType });
  }
}

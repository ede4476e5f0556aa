/** The thread that keeps a worker's session alive, whatever its handlers do to the event loop of the main thread. */
import { parentPort, workerData } from "node:worker_threads";
import { RotaError } from "../errors.js";
import type { Setup, ToEngine, ToMain } from "../messages.js";
import { Engine } from "./engine.js";

const port = parentPort;
if (port === null) {
  throw new Error("expected to run as a worker's thread");
}
const tell = (message: ToMain) => port.postMessage(message);
const engine = new Engine(workerData as Setup, tell);
port.on("message", (message: ToEngine) => engine.hear(message));
engine.run().then(
  () => finish(null),
  (error: unknown) => finish(error),
);

function finish(error: unknown): void {
  const refusal =
    error === null
      ? null
      : error instanceof RotaError
        ? { code: error.code, reason: error.reason, message: error.message }
        : { code: 2, reason: "", message: String((error as Error)?.stack ?? error) };
  tell({ kind: "exit", refusal });
  port?.close();
}

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";

const DEFAULT_ADDRESS = "127.0.0.1:7070";
const DEFAULT_PORT = "7070";

/** Files in PEM form. Without `ca` the system's roots are trusted; `cert` and `key` identify the caller. */
export interface Tls {
  ca?: string;
  cert?: string;
  key?: string;
}

/**
 * Where the server is, how it is trusted, who the caller is. What is left out comes from the environment: ROTA_ADDRESS
 * (default 127.0.0.1:7070), ROTA_API_KEY, ROTA_TLS=1 (system roots), ROTA_TLS_CA, ROTA_TLS_CERT, ROTA_TLS_KEY (files). A
 * scheme https:// or grpcs://, or any of the TLS settings, turns TLS on.
 */
export interface EndpointOptions {
  /** host:port, grpc://host:port or grpcs://host:port */
  address?: string;
  /** The key that `rota dev` writes to $ROTA_HOME/dev/api-key is found only for an address on this machine. */
  apiKey?: string;
  tls?: Tls | boolean;
}

/** An endpoint with every question answered; plain data, so that it can go to another thread. */
export interface Endpoint {
  target: string;
  address: string;
  loopback: boolean;
  apiKey: string;
  tls: Tls | null;
}

export function resolve(options: EndpointOptions, env: NodeJS.ProcessEnv = process.env): Endpoint {
  const address = options.address || env["ROTA_ADDRESS"] || DEFAULT_ADDRESS;
  const { target, secure, loopback } = parse(address);
  const files: Tls = given({ ca: env["ROTA_TLS_CA"], cert: env["ROTA_TLS_CERT"], key: env["ROTA_TLS_KEY"] });
  let tls: Tls | null;
  if (options.tls === undefined) {
    const wanted = secure || Object.keys(files).length > 0 || !["", "0", undefined].includes(env["ROTA_TLS"]);
    tls = wanted ? files : null;
  } else {
    tls = options.tls === true ? {} : options.tls || null;
  }
  if (tls !== null && !tls.cert !== !tls.key) {
    throw new TypeError("TLS: expected both a certificate and its key, found only one; set both or neither");
  }
  const apiKey = options.apiKey ?? (env["ROTA_API_KEY"] || (loopback ? devKey(env) : ""));
  return { target, address, loopback, apiKey, tls };
}

export function trust(endpoint: Endpoint): ChannelCredentials {
  if (endpoint.tls === null) {
    return credentials.createInsecure();
  }
  const { ca, cert, key } = endpoint.tls;
  const read = (file: string | undefined) => (file ? readFileSync(file) : null);
  return credentials.createSsl(read(ca), read(key), read(cert));
}

function given(tls: Record<keyof Tls, string | undefined>): Tls {
  return Object.fromEntries(Object.entries(tls).filter(([, file]) => file));
}

function parse(address: string): { target: string; secure: boolean; loopback: boolean } {
  if (address.startsWith("unix:")) {
    return { target: address, secure: false, loopback: true };
  }
  const found = /^(?:(\w+):\/\/)?(\[[0-9a-fA-F:.]+\]|[^\s/:[\]]+)(?::(\d{1,5}))?\/?$/.exec(address);
  const scheme = found?.[1] ?? "grpc";
  const host = found?.[2];
  const port = Number(found?.[3] ?? DEFAULT_PORT);
  if (host === undefined || !["grpc", "grpcs", "http", "https"].includes(scheme) || port < 1 || port > 65_535) {
    throw new TypeError(
      `address: expected host:port, grpc://host:port or grpcs://host:port, found ${JSON.stringify(address)}; ` +
        "set ROTA_ADDRESS or pass address",
    );
  }
  return {
    target: `${host}:${port}`,
    secure: scheme === "grpcs" || scheme === "https",
    loopback: host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || /^127\.[\d.]+$/.test(host),
  };
}

function devKey(env: NodeJS.ProcessEnv): string {
  try {
    return readFileSync(join(env["ROTA_HOME"] || join(homedir(), ".rota"), "dev", "api-key"), "utf8").trim();
  } catch {
    return "";
  }
}

export const VERSION = "0.1.0";
export const SDK = `rota-typescript/${VERSION}`;
export const PROTOCOL = 1;

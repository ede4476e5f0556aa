import { RotaError } from "./errors.js";

/** Creates the table of `once` where it is missing. Every SDK uses the same one. */
export const DDL = `create table if not exists rota_effects (
    effect_key text primary key,
    fence      bigint not null,
    applied_at timestamptz not null default now()
)`;

const INSERT = "insert into rota_effects (effect_key, fence) values ($1, $2) on conflict (effect_key) do nothing";
// Touches the row only with a fence as new as any seen; the lock holds until the caller commits.
const RAISE = "update rota_effects set fence = $1 where effect_key = $2 and fence <= $1";
const SEEN = "select fence from rota_effects where effect_key = $1";
const ABORTED = 10;

/** A connection in a transaction: `pg`'s client, or anything with its `query`. */
export interface Queryable {
  query(text: string, values: unknown[]): Promise<{ rowCount: number | null; rows: Record<string, unknown>[] }>;
}

/** What names an effect: a Lease, or anything with its key and fence. */
export interface Effect {
  readonly effectKey: string;
  readonly fence: bigint;
}

/**
 * Whether the effect is still to be applied, in the caller's open transaction; false: an earlier attempt applied it, and
 * there is nothing to do.
 *
 *     await client.query("begin");
 *     if (await once(client, lease)) {
 *       await client.query("update accounts set balance = balance - 10 where id = 7");
 *     }
 *     await client.query("commit");
 *
 * Why it is exact: the key is unique, so of two attempts the second waits for the first one's commit and then sees its
 * row; a crash takes key and change away together. An attempt older than one already seen gets STALE_FENCE, and has to
 * roll back.
 */
export async function once(transaction: Queryable, { effectKey, fence }: Effect): Promise<boolean> {
  if (!effectKey) {
    throw new TypeError("effectKey: expected a text, found an empty one");
  }
  const made = await transaction.query(INSERT, [effectKey, String(fence)]);
  if (made.rowCount === 1) {
    return true;
  }
  const raised = await transaction.query(RAISE, [String(fence), effectKey]);
  if (raised.rowCount === 1) {
    return false;
  }
  const newest = String((await transaction.query(SEEN, [effectKey])).rows[0]?.["fence"]);
  throw new RotaError(
    ABORTED,
    "STALE_FENCE",
    `the target has seen fence ${newest} of this effect, and this attempt has ${fence}; roll back`,
    { fence: newest },
  );
}

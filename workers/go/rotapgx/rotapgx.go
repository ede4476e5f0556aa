// Package rotapgx makes an effect in PostgreSQL happen once although attempts may repeat: it stores the effect key in the
// transaction of the change itself.
//
//	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
//		first, err := rotapgx.Once(ctx, tx, lease)
//		if err != nil || !first {
//			return err
//		}
//		_, err = tx.Exec(ctx, "update accounts set balance = balance - 10 where id = 7")
//		return err
//	})
//
// Why it is exact: the key is unique, so of two attempts the second waits for the first one's commit and then sees its row;
// a crash takes key and change away together. The fence refuses an attempt older than one already seen.
package rotapgx

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"

	rota "github.com/rota-scheduler/rota/workers/go"
)

// DDL creates the table of Once where it is missing. Every SDK uses the same one.
const DDL = `create table if not exists rota_effects (
    effect_key text primary key,
    fence      bigint not null,
    applied_at timestamptz not null default now()
)`

const (
	insert = "insert into rota_effects (effect_key, fence) values ($1, $2) on conflict (effect_key) do nothing"
	// Touches the row only with a fence as new as any seen; the lock holds until the caller commits.
	raise = "update rota_effects set fence = $1 where effect_key = $2 and fence <= $1"
	seen  = "select fence from rota_effects where effect_key = $1"
)

// Effect is what names an effect: a *rota.Lease, or anything with its key and fence.
type Effect interface {
	EffectKey() string
	Fence() int64
}

// Tx is an open transaction, such as a pgx.Tx.
type Tx interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// Once says whether the effect is still to be applied, in the caller's open transaction. False: an earlier attempt applied
// it, and the caller has nothing to do. An attempt older than one already seen gets rota.ErrStaleFence, and has to roll
// back.
func Once(ctx context.Context, tx Tx, effect Effect) (first bool, err error) {
	return OnceFor(ctx, tx, effect.EffectKey(), effect.Fence())
}

// OnceFor is Once for one of several effects of a job, each with a key of its own.
func OnceFor(ctx context.Context, tx Tx, effectKey string, fence int64) (first bool, err error) {
	if effectKey == "" {
		return false, errors.New("rotapgx: expected an effect key, found an empty text")
	}
	made, err := tx.Exec(ctx, insert, effectKey, fence)
	if err != nil {
		return false, fmt.Errorf("rotapgx: %w", err)
	}
	if made.RowsAffected() == 1 {
		return true, nil
	}
	raised, err := tx.Exec(ctx, raise, fence, effectKey)
	if err != nil {
		return false, fmt.Errorf("rotapgx: %w", err)
	}
	if raised.RowsAffected() == 1 {
		return false, nil
	}
	var newest int64
	if err := tx.QueryRow(ctx, seen, effectKey).Scan(&newest); err != nil {
		return false, fmt.Errorf("rotapgx: %w", err)
	}
	return false, &rota.Error{
		Code: codes.Aborted, Reason: "STALE_FENCE",
		Message: fmt.Sprintf("the target has seen fence %d of this effect, and this attempt has %d; roll back", newest, fence),
		Details: map[string]string{"fence": strconv.FormatInt(newest, 10)},
	}
}

package rota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	rotav1 "github.com/rota-scheduler/rota/workers/go/gen/rota/v1"
	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

func testLease(t *testing.T) *Lease {
	t.Helper()
	made := newSession(&workerv1.OpenSessionResponse{Session: "sessions/s1"}, time.Now(), slog.Default())
	return newLease(&workerv1.Lease{
		Job: "jobs/1", Fence: 7, Type: "work", EffectKey: "key", RunTimeout: durationpb.New(time.Minute),
	}, made, time.Now())
}

func TestWhatErrorsMean(t *testing.T) {
	for _, given := range []struct {
		name  string
		err   error
		asked Stop
		kind  string
		check func(*workerv1.Result) bool
	}{
		{"a plain error", errors.New("x"), StopNone, kindFailed, func(r *workerv1.Result) bool {
			return r.GetFailed().Retryable == nil && r.GetFailed().Failure.Message == "x"
		}},
		{"for good", fmt.Errorf("more: %w", Fatal(errors.New("x"))), StopNone, kindFailed, func(r *workerv1.Result) bool {
			return !r.GetFailed().GetRetryable() && r.GetFailed().Retryable != nil
		}},
		{"not before a while", Retry(errors.New("x"), 2*time.Hour), StopNone, kindFailed, func(r *workerv1.Result) bool {
			return r.GetFailed().RetryAfter.AsDuration() == time.Hour
		}},
		{"unknown effect", EffectUnknown(errors.New("x")), StopNone, kindFailed, func(r *workerv1.Result) bool {
			return r.GetFailed().EffectState == rotav1.EffectState_EFFECT_STATE_UNKNOWN
		}},
		{"given back", Release("later", time.Minute), StopNone, kindReleased, func(r *workerv1.Result) bool {
			return r.GetReleased().Delay.AsDuration() == time.Minute
		}},
		{"its own words", &Failed{Type: "ExitCode", Message: "3"}, StopNone, kindFailed, func(r *workerv1.Result) bool {
			return r.GetFailed().Failure.Type == "ExitCode"
		}},
		{"cancelled when asked", context.Canceled, StopCancel, kindCancelled, nil},
		{"cancelled when nobody asked", ErrCancelled, StopNone, kindFailed, nil},
		{"stopped because the worker leaves", stopError{StopLeaving}, StopLeaving, kindReleased, nil},
		{"stopped at the run timeout", stopError{StopTimedOut}, StopTimedOut, kindFailed, func(r *workerv1.Result) bool {
			return r.GetFailed().Failure.Type == "TimedOut" && r.GetFailed().GetRetryable()
		}},
		{"a failure after cancellation", errors.New("x"), StopCancel, kindFailed, nil},
	} {
		t.Run(given.name, func(t *testing.T) {
			lease := testLease(t)
			if given.asked != StopNone {
				lease.askToStop(given.asked)
			}
			made := ofError(lease, given.err, "")
			if made.kind != given.kind || made.result.Fence != 7 || made.result.RequestId == "" {
				t.Fatalf("expected %s, found %s: %v", given.kind, made.kind, made.result)
			}
			if given.check != nil && !given.check(made.result) {
				t.Errorf("found %v", made.result)
			}
		})
	}
}

func TestAPanicFailsTheAttemptWithItsStack(t *testing.T) {
	lease := testLease(t)
	_, err := protected(lease.ctx, lease, func(context.Context, *Lease) (any, error) { panic("oh") })
	made := ofError(lease, err, "").result.GetFailed().Failure
	if made.Type != "panic" || !strings.Contains(made.Stack, "outcome_test.go") {
		t.Errorf("found %v", made)
	}
}

func TestAResultBeyondTheLimitFailsForGood(t *testing.T) {
	made := succeeded(testLease(t), make([]byte, resultBytesMax+1), "")
	if made.kind != kindFailed || made.result.GetFailed().GetRetryable() || made.result.GetFailed().Retryable == nil {
		t.Errorf("found %v", made.result)
	}
}

func TestAStopEndsTheContextWithItsReason(t *testing.T) {
	lease := testLease(t)
	if StopReason(lease.ctx) != StopNone {
		t.Error("expected no reason yet")
	}
	lease.askToStop(StopLost)
	if lease.askToStop(StopCancel) {
		t.Error("a lost lease cannot be cancelled any more")
	}
	if StopReason(lease.ctx) != StopLost || !lease.worthless() {
		t.Errorf("found %v", StopReason(lease.ctx))
	}
	if LeaseFrom(lease.ctx) != lease {
		t.Error("expected the lease in its handler's context")
	}
}

func TestErrorsAreToldApart(t *testing.T) {
	stale := error(&Error{Code: ErrStaleFence.Code, Reason: "STALE_FENCE", Message: "x"})
	if !errors.Is(stale, ErrStaleFence) || errors.Is(stale, ErrSessionGone) || errors.Is(stale, ErrOutcomeConflict) {
		t.Error("reasons are mixed up")
	}
	if !errors.Is(&Error{Code: ErrSessionGone.Code, Reason: "SESSION_GONE"}, ErrNotFound) {
		t.Error("a session that is gone is not found")
	}
}

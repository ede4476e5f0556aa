package rota

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rotav1 "github.com/rota-scheduler/rota/workers/go/gen/rota/v1"
	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

const (
	kindSucceeded = "succeeded"
	kindFailed    = "failed"
	kindReleased  = "released"
	kindCancelled = "cancelled"
)

// ErrCancelled says that a handler stopped because it was asked to. The error of its context does too.
var ErrCancelled = errors.New("rota: the handler stopped because it was asked to")

type retryError struct {
	error
	after time.Duration
}

func (e retryError) Unwrap() error { return e.error }

// Retry fails an attempt and asks for another one, not before `after`, at most an hour.
func Retry(err error, after time.Duration) error { return retryError{err, after} }

type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// Fatal fails a job for good: no retry, whatever its policy says.
func Fatal(err error) error { return fatalError{err} }

type unknownError struct{ error }

func (e unknownError) Unwrap() error { return e.error }

// EffectUnknown fails an attempt, and nobody knows whether its effect was applied, for example because the target did
// not answer.
func EffectUnknown(err error) error { return unknownError{err} }

type releaseError struct {
	reason string
	delay  time.Duration
}

func (e releaseError) Error() string { return "rota: given back: " + e.reason }

// Release gives the job back unfinished, not before `delay`, at most an hour. It does not count as an attempt.
func Release(reason string, delay time.Duration) error { return releaseError{reason, delay} }

// Failed fails an attempt in terms of the work instead of this program's. The retry policy decides unless Retryable does.
type Failed struct {
	Type      string
	Message   string
	Stack     string
	Retryable *bool
}

func (f *Failed) Error() string { return f.Type + ": " + f.Message }

type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// outcome is one Result on its way, kept with its request_id until it is answered.
type outcome struct {
	lease    *Lease
	kind     string
	result   *workerv1.Result
	size     int
	rejected bool
	repeated int
}

func newOutcome(lease *Lease, kind, traceparent string) *outcome {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return &outcome{lease: lease, kind: kind, result: &workerv1.Result{
		Job: lease.message.Job, Fence: lease.message.Fence, RequestId: lease.session.nextRequestID(),
		EffectReceipts: lease.receipts, Traceparent: traceparent,
	}}
}

func (o *outcome) sized() *outcome {
	o.size = proto.Size(o.result) + 8
	return o
}

// succeeded is a success with what the handler returned, or a failure that says why it cannot be kept.
func succeeded(lease *Lease, value any, traceparent string) *outcome {
	payload, err := PayloadOf(value)
	if err != nil {
		return failed(lease, "ResultNotSerializable", err.Error(), "", traceparent, notAgain)
	}
	if len(payload.Data) > resultBytesMax {
		words := fmt.Sprintf("expected a result of at most %d bytes, found %d; store it elsewhere and return where",
			resultBytesMax, len(payload.Data))
		return failed(lease, "ResultTooLarge", words, "", traceparent, notAgain)
	}
	made := newOutcome(lease, kindSucceeded, traceparent)
	made.result.Outcome = &workerv1.Result_Succeeded{Succeeded: &workerv1.Succeeded{Result: payload.message()}}
	lease.mu.Lock()
	made.result.Spawned = lease.spawned
	lease.mu.Unlock()
	if made.sized(); made.size > resultCallBytesMax {
		words := fmt.Sprintf("expected result and spawned jobs of at most %d bytes, found %d; create large jobs with a Client",
			resultCallBytesMax, made.size)
		return failed(lease, "ResultTooLarge", words, "", traceparent, notAgain)
	}
	return made
}

func notAgain(f *workerv1.Failed) { f.Retryable = proto.Bool(false) }

func failed(lease *Lease, kind, words, stack, traceparent string, more ...func(*workerv1.Failed)) *outcome {
	made := newOutcome(lease, kindFailed, traceparent)
	told := &workerv1.Failed{Failure: &rotav1.Failure{
		Type:    clean(kind, failureTypeBytesMax),
		Message: clean(words, failureMessageBytesMax),
		Stack:   clean(stack, failureStackBytesMax),
	}}
	for _, each := range more {
		each(told)
	}
	made.result.Outcome = &workerv1.Result_Failed{Failed: told}
	return made.sized()
}

func timedOut(lease *Lease, traceparent string) *outcome {
	words := fmt.Sprintf("expected the handler to end within its run timeout of %s", lease.message.GetRunTimeout().AsDuration())
	return failed(lease, "TimedOut", words, "", traceparent, func(f *workerv1.Failed) {
		f.Retryable = proto.Bool(true)
		// What it did outside is not known.
		f.EffectState = rotav1.EffectState_EFFECT_STATE_UNKNOWN
	})
}

func released(lease *Lease, reason string, delay time.Duration) *outcome {
	made := newOutcome(lease, kindReleased, "")
	told := &workerv1.Released{Reason: clean(reason, reasonBytesMax)}
	if delay > 0 {
		told.Delay = durationpb.New(min(delay, retryAfterMax))
	}
	made.result.Outcome = &workerv1.Result_Released{Released: told}
	return made.sized()
}

func cancelled(lease *Lease, reason, traceparent string) *outcome {
	made := newOutcome(lease, kindCancelled, traceparent)
	made.result.Outcome = &workerv1.Result_Cancelled{Cancelled: &workerv1.Cancelled{Reason: clean(reason, reasonBytesMax)}}
	return made.sized()
}

// rejected takes the place of an outcome that the coordinator cannot accept. It is another logical outcome, so it has a
// request_id of its own; nothing of the refused content is in it.
func (o *outcome) rejectedFor(words string) *outcome {
	o.lease.mu.Lock()
	o.lease.receipts, o.lease.spawned = nil, nil
	o.lease.mu.Unlock()
	made := failed(o.lease, "OutcomeRejected", fmt.Sprintf("the %s outcome was refused: %s", o.kind, words), "", "", notAgain)
	made.rejected = true
	return made
}

// ofError is what a handler's error means, given why the handler was asked to stop, if it was.
func ofError(lease *Lease, err error, traceparent string) *outcome {
	var release releaseError
	if errors.As(err, &release) {
		return released(lease, release.reason, release.delay)
	}
	asked := lease.StopReason()
	var stop stopError
	if errors.Is(err, ErrCancelled) || errors.As(err, &stop) || errors.Is(err, context.Canceled) {
		switch asked {
		case StopCancel:
			return cancelled(lease, err.Error(), traceparent)
		case StopLeaving:
			return released(lease, "the worker leaves", 0)
		}
	}
	var fatal fatalError
	if errors.As(err, &fatal) {
		return failed(lease, failureType(err), err.Error(), stackOf(err), traceparent, notAgain)
	}
	if asked == StopTimedOut {
		return timedOut(lease, traceparent)
	}
	var told *Failed
	if errors.As(err, &told) {
		return failed(lease, told.Type, told.Message, told.Stack, traceparent, func(f *workerv1.Failed) { f.Retryable = told.Retryable })
	}
	return failed(lease, failureType(err), err.Error(), stackOf(err), traceparent, func(f *workerv1.Failed) {
		var retry retryError
		if errors.As(err, &retry) {
			f.Retryable = proto.Bool(true)
			f.RetryAfter = durationpb.New(min(max(0, retry.after), retryAfterMax))
		}
		var unknown unknownError
		if errors.As(err, &unknown) {
			f.EffectState = rotav1.EffectState_EFFECT_STATE_UNKNOWN
		}
	})
}

// failureType is the Go type of what went wrong, without the words that the SDK wraps around it.
func failureType(err error) string {
	for {
		switch wrapped := err.(type) {
		case retryError:
			err = wrapped.error
		case fatalError:
			err = wrapped.error
		case unknownError:
			err = wrapped.error
		case *panicError:
			return "panic"
		default:
			return strings.TrimPrefix(reflect.TypeOf(err).String(), "*")
		}
	}
}

// stackOf is the stack of a panic, or the chain of wrapped errors, which is what Go has instead.
func stackOf(err error) string {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return panicked.stack
	}
	var chain strings.Builder
	for each := err; each != nil; each = errors.Unwrap(each) {
		fmt.Fprintf(&chain, "%T: %s\n", each, clean(each.Error(), failureMessageBytesMax))
		if chain.Len() > failureStackBytesMax {
			break
		}
	}
	return chain.String()
}

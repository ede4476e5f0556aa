package rota

import (
	"context"
	"errors"
)

// Stop is why a handler is asked to stop, the gravest last. From [StopLost] on its outcome is worthless and dropped.
type Stop int

const (
	// StopNone: it is not.
	StopNone Stop = iota
	// StopTimedOut: it ran longer than its run timeout.
	StopTimedOut
	// StopLeaving: the worker leaves and waits no longer.
	StopLeaving
	// StopCancel: somebody cancelled the job.
	StopCancel
	// StopLost: the coordinator says that the lease is gone.
	StopLost
	// StopExpired: no beat was answered for the session's TTL.
	StopExpired
	// StopSessionGone: the session ended.
	StopSessionGone
)

func (s Stop) String() string {
	return [...]string{"none", "timed out", "leaving", "cancelled", "lost", "expired", "session gone"}[s]
}

// stopError is the cause of a handler's context.
type stopError struct{ reason Stop }

func (e stopError) Error() string { return "rota: the handler is asked to stop: " + e.reason.String() }

// Is makes it a context.Canceled for those who ask for that.
func (e stopError) Is(target error) bool { return target == context.Canceled }

// StopReason is why a handler's context ended; StopNone while it did not, or for another context.
func StopReason(ctx context.Context) Stop {
	var found stopError
	if errors.As(context.Cause(ctx), &found) {
		return found.reason
	}
	return StopNone
}

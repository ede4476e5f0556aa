package rota

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	rotav1 "github.com/rota-scheduler/rota/workers/go/gen/rota/v1"
	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

// Lease is the right to run one attempt of a job, and all that a handler needs to know. Safe for use by many goroutines.
type Lease struct {
	message    *workerv1.Lease
	session    *session
	receivedAt time.Time
	runUntil   time.Time

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	state    leaseState
	stop     Stop
	spawned  []*rotav1.CreateJobRequest
	receipts []*rotav1.EffectReceipt
}

type leaseState int

const (
	queued leaseState = iota
	running
	settled
)

func newLease(message *workerv1.Lease, session *session, receivedAt time.Time) *Lease {
	made := &Lease{message: message, session: session, receivedAt: receivedAt}
	made.ctx, made.cancel = context.WithCancelCause(context.WithValue(context.Background(), leaseKey{}, made))
	// Counted from receipt: the request may have been parked for long before the grant.
	if timeout := message.GetRunTimeout().AsDuration(); timeout > 0 {
		made.runUntil = receivedAt.Add(timeout)
	}
	return made
}

type leaseKey struct{}

// LeaseFrom is the lease of the handler that a context belongs to. It panics for any other context.
func LeaseFrom(ctx context.Context) *Lease {
	found, ok := ctx.Value(leaseKey{}).(*Lease)
	if !ok {
		panic("rota: LeaseFrom: expected the context of a handler")
	}
	return found
}

// Job is jobs/{id}.
func (l *Lease) Job() string { return l.message.Job }

// ID is the job's id.
func (l *Lease) ID() string { return strings.TrimPrefix(l.message.Job, "jobs/") }

// Fence grows with every attempt. Targets that check it refuse a late one.
func (l *Lease) Fence() int64 { return l.message.Fence }

// Attempt is 1 for the first grant.
func (l *Lease) Attempt() int { return int(l.message.Attempt) }

// Type is the handler's name.
func (l *Lease) Type() string { return l.message.Type }

// Queue is where the job came from.
func (l *Lease) Queue() string { return l.message.Queue }

// Payload is the handler's input.
func (l *Lease) Payload() Payload { return payloadOf(l.message.Payload) }

// Headers are named texts beside it.
func (l *Lease) Headers() map[string]string { return maps.Clone(l.message.Headers) }

// EffectKey is the idempotency key of the job's effect: equal in all attempts, retries and redrives.
func (l *Lease) EffectKey() string { return l.message.EffectKey }

// Schedule is schedules/{id} that the job comes from; empty: none.
func (l *Lease) Schedule() string { return l.message.Schedule }

// NominalTime is, informatively, the instant that the schedule's rule names; zero: none.
func (l *Lease) NominalTime() time.Time { return instant(l.message.NominalTime) }

// DueTime is, informatively, when the job became due.
func (l *Lease) DueTime() time.Time { return instant(l.message.DueTime) }

// Priority is 0 to 9, 9 first.
func (l *Lease) Priority() int { return int(l.message.Priority) }

// MaxAttempts are the most attempts that count.
func (l *Lease) MaxAttempts() int { return int(l.message.MaxAttempts) }

// AttemptsCounted are those that counted before this one.
func (l *Lease) AttemptsCounted() int { return int(l.message.AttemptsCounted) }

// Traceparent is the W3C trace context of the grant; empty when it has none.
func (l *Lease) Traceparent() string { return l.message.Traceparent }

// Session is sessions/{id} that holds the lease.
func (l *Lease) Session() string { return l.session.name }

// Remaining is the time until the run timeout or the job's deadline, whichever is first; never negative.
func (l *Lease) Remaining() time.Duration {
	until := l.runUntil
	if l.message.Deadline != nil {
		deadline := l.receivedAt.Add(l.message.Deadline.AsDuration())
		if until.IsZero() || deadline.Before(until) {
			until = deadline
		}
	}
	if until.IsZero() {
		return math.MaxInt64
	}
	return max(0, time.Until(until))
}

// AtRisk says that no beat was answered for two thirds of the session's TTL: at its end the attempt is aborted.
func (l *Lease) AtRisk() bool { return l.session.atRisk.Load() }

// StopReason is why the handler is asked to stop; its own success still wins where it can.
func (l *Lease) StopReason() Stop {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stop
}

// Progress tells people how far it is, with the next beat; only the latest note is sent, cut at 1 KiB.
func (l *Lease) Progress(note string) { l.session.note(l, clean(note, noteBytesMax)) }

// EffectHeaders are for HTTP targets that honour idempotency keys: Idempotency-Key and Rota-Fence.
func (l *Lease) EffectHeaders() http.Header {
	headers := http.Header{}
	headers.Set("Idempotency-Key", l.EffectKey())
	headers.Set("Rota-Fence", strconv.FormatInt(l.Fence(), 10))
	return headers
}

// EffectHeadersFor are EffectHeaders for a target that remembers keys for a window. It warns, once for each job type, when
// the job may be tried for longer, or be redriven up to so long after its deadline; see [RedriveDefault].
func (l *Lease) EffectHeadersFor(window, redrive time.Duration) http.Header {
	warnOfWindow(l, window, redrive)
	return l.EffectHeaders()
}

// Spawn creates a job in the transaction of this one's success; nothing when it does not succeed.
func (l *Lease) Spawn(job NewJob) error {
	request, err := job.request()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spawned) >= spawnedJobsMax {
		return fmt.Errorf("rota: expected at most %d spawned jobs; create more with a Client", spawnedJobsMax)
	}
	l.spawned = append(l.spawned, request)
	return nil
}

// Receipt keeps with the attempt what a target answered, for example a payment id.
func (l *Lease) Receipt(reference string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.receipts) >= receiptsMax {
		return fmt.Errorf("rota: expected at most %d receipts, found one more", receiptsMax)
	}
	l.receipts = append(l.receipts, &rotav1.EffectReceipt{
		EffectKey: l.EffectKey(), Reference: clean(reference, receiptBytesMax),
	})
	return nil
}

func (l *Lease) key() leaseID { return leaseID{l.message.Job, l.message.Fence} }

// askToStop records why and ends the handler's context; false when it had been asked for a reason as grave.
func (l *Lease) askToStop(reason Stop) bool {
	l.mu.Lock()
	if l.stop >= reason {
		l.mu.Unlock()
		return false
	}
	l.stop = reason
	l.mu.Unlock()
	l.cancel(stopError{reason})
	return true
}

// begin says whether the handler may start: once, and not after the outcome was decided.
func (l *Lease) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != queued {
		return false
	}
	l.state = running
	return true
}

// settle claims the right to decide the outcome, which only the first caller gets.
func (l *Lease) settle(onlyUnstarted bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == settled || (onlyUnstarted && l.state != queued) {
		return false
	}
	l.state = settled
	return true
}

func (l *Lease) is(state leaseState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == state
}

func (l *Lease) worthless() bool { return l.StopReason() >= StopLost }

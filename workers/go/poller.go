package rota

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

const pollerNumber = 0

// poller asks for jobs: one call in flight, the same request_id until it is answered, the last batch acknowledged.
type poller struct {
	session *session
	link    *link
	crew    *crew
	done    chan struct{}

	// stopping ends when no further poll shall follow; aborted when the one in flight shall end too.
	stopping context.Context
	stop     context.CancelFunc
	aborted  context.Context
	abandon  context.CancelFunc

	mu        sync.Mutex
	overdue   context.CancelFunc
	again     bool
	notBefore time.Time
	slowUntil time.Time

	backoff  backoff
	ackBatch int64
}

func newPoller(session *session, link *link, crew *crew) *poller {
	made := &poller{
		session: session, link: link, crew: crew, done: make(chan struct{}), backoff: newBackoff(backoffFirst, backoffMax),
	}
	made.aborted, made.abandon = context.WithCancel(crew.ctx)
	made.stopping, made.stop = context.WithCancel(made.aborted)
	return made
}

func (p *poller) slowDown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.slowUntil = now.Add(slowDownFor)
	p.notBefore = later(p.notBefore, now.Add(slowPause()))
}

// repeat: the answer to the call in flight may be lost, so the call is made again, at once.
func (p *poller) repeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = true
	if p.overdue != nil {
		p.overdue()
	}
}

func (p *poller) run() {
	defer close(p.done)
	defer p.stop()
	defer p.abandon()
	for {
		free := p.waitForSlots()
		if free == 0 || !p.pause(p.pauseUntil()) {
			return
		}
		if !p.poll(free) {
			return
		}
	}
}

// waitForSlots is how many to ask for; 0 when no poll shall follow. With few of many slots free it lingers for a moment:
// under load a small poll would be followed at once by another one.
func (p *poller) waitForSlots() int {
	slots := p.crew.engine.slots
	comfortable := max(1, slots.total/4)
	var linger <-chan time.Time
	for p.stopping.Err() == nil {
		used, changed := slots.look()
		free := slots.total - used
		if free >= comfortable {
			return min(free, leaseJobsMax)
		}
		if free > 0 && linger == nil {
			linger = time.After(slotLinger)
		} else if free <= 0 {
			linger = nil
		}
		select {
		case <-p.stopping.Done():
		case <-changed:
		case <-linger:
			return free
		}
	}
	return 0
}

func (p *poller) pauseUntil() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notBefore
}

func (p *poller) pause(until time.Time) bool {
	if left := time.Until(until); left > 0 {
		return sleep(p.stopping, left)
	}
	return p.stopping.Err() == nil
}

// poll makes one logical call; false when no other shall follow.
func (p *poller) poll(free int) bool {
	// Jitter, so that idle workers do not come back in the same instant.
	wait := jittered(p.session.wait, 0.8, 1)
	request := &workerv1.LeaseRequest{
		Session: p.session.name, Poller: pollerNumber, RequestId: p.session.nextRequestID(), AckBatch: p.ackBatch,
		Capacity: int32(free), MaxBytes: sendBytesMax, Wait: durationpb.New(wait),
	}
	for {
		if p.stopping.Err() != nil {
			return false
		}
		p.crew.beats.proveSoon(false)
		ctx, cancel := context.WithCancel(p.aborted)
		p.mu.Lock()
		p.overdue, p.again = cancel, false
		p.mu.Unlock()
		response, err := call(ctx, wait+leaseAnswerGrace, p.link.client().Lease, request)
		cancel()
		if err == nil {
			p.backoff.reset()
			p.receive(response, time.Now())
			return true
		}
		if p.ackBatch != 0 {
			p.crew.beats.proveSoon(true)
		}
		p.mu.Lock()
		again := p.again
		p.mu.Unlock()
		if again && codeOf(err) == codes.Canceled && p.stopping.Err() == nil {
			continue
		}
		if repeat, goOn := p.afterFailure(err); !repeat {
			return goOn
		}
	}
}

// afterFailure waits as the failure deserves; whether to repeat the very same call, and else whether to go on.
func (p *poller) afterFailure(err error) (repeat, goOn bool) {
	if p.stopping.Err() != nil {
		return false, false
	}
	if errors.Is(err, ErrSessionGone) || codeOf(err) == codes.NotFound {
		p.session.end(StopSessionGone, err.Error())
		return false, false
	}
	same := transient(err)
	level := slog.LevelWarn
	if same && codeOf(err) != codes.ResourceExhausted {
		level = slog.LevelDebug
	}
	p.session.log.Log(p.stopping, level, "Lease", "error", err)
	wait := p.backoff.next(retryAfterOf(err))
	if codeOf(err) == codes.Unavailable {
		wait = max(min(wait, connectBackoffMax), retryAfterOf(err))
	}
	if !same {
		// An answer, and not one that a quick repetition changes.
		wait = max(wait, slowDown)
	}
	goOn = sleep(p.stopping, wait)
	return goOn && same, goOn
}

func (p *poller) receive(response *workerv1.LeaseResponse, now time.Time) {
	if len(response.Leases) > 0 {
		leases := make([]*Lease, len(response.Leases))
		for at, message := range response.Leases {
			leases[at] = newLease(message, p.session, now)
		}
		leases = p.session.holdings.add(pollerNumber, response.Batch, leases)
		p.crew.engine.slots.take(len(leases))
		if response.Batch != 0 {
			p.ackBatch = response.Batch
		}
		p.crew.beats.proveSoon(true)
		p.crew.engine.startLeases(leases)
	}
	p.mu.Lock()
	if len(response.Leases) > 0 && response.NextPollAfter == nil {
		// A coordinator that has still too much to do would not leave that out.
		p.slowUntil = time.Time{}
	}
	if now.Before(p.slowUntil) {
		p.notBefore = later(p.notBefore, now.Add(slowPause()))
	}
	if response.NextPollAfter != nil {
		p.notBefore = later(p.notBefore, now.Add(response.NextPollAfter.AsDuration()))
	}
	p.mu.Unlock()
	if len(response.Directives) > 0 {
		p.crew.direct(response.Directives)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// slowPause has jitter, for workers that were told in the same instant.
func slowPause() time.Duration { return jittered(slowDown, 0.8, 1.2) }

package rota

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

// engine runs sessions one after the other, and ends in order. A session that ends takes its leases along and is followed
// by a new one; a stop drains: no new jobs, unstarted ones go back at once, running ones finish, their outcomes are
// answered, the session is closed. Beats go on until then.
type engine struct {
	config   WorkerConfig
	link     *link
	handlers map[string]Handler
	identity *workerv1.OpenSessionRequest
	slots    *slots
	// running has room for as many handlers as there are slots, whatever the server sent.
	running  chan struct{}
	counters *counters
	tracer   trace.Tracer
	log      *slog.Logger

	// draining ends when the worker is to leave, hurried when it is to leave at once.
	draining context.Context
	drain    context.CancelFunc
	hurried  context.Context
	hurry    context.CancelFunc
}

// crew is the goroutines of one session.
type crew struct {
	engine      *engine
	session     *session
	ctx         context.Context
	dismiss     context.CancelFunc
	beats       *beats
	poller      *poller
	completions *completions
	wait        sync.WaitGroup

	mu      sync.Mutex
	done    map[int64]struct{}
	doneIDs []int64
}

func newCrew(engine *engine, session *session) *crew {
	made := &crew{engine: engine, session: session, done: map[int64]struct{}{}}
	made.ctx, made.dismiss = context.WithCancel(context.Background())
	made.beats = newBeats(session, engine.link, made)
	made.completions = newCompletions(session, engine.link, made)
	made.poller = newPoller(session, engine.link, made)
	session.completions = made.completions
	return made
}

func (c *crew) start(work func()) {
	c.wait.Add(1)
	go func() {
		defer c.wait.Done()
		work()
	}()
}

func (c *crew) lose(id leaseID) {
	if lease := c.session.holdings.takeOne(id); lease != nil {
		c.engine.lose([]*Lease{lease}, StopLost)
	}
}

// direct carries directives out, each once, and acknowledges them. It may be called by the beats' own goroutine, so it
// does not wait for it.
func (c *crew) direct(directives []*workerv1.Directive) {
	var acked []int64
	for _, directive := range directives {
		if directive.Id == 0 || c.isNew(directive.Id) {
			c.act(directive)
		}
		if directive.Id != 0 {
			acked = append(acked, directive.Id)
		}
	}
	if len(acked) > 0 {
		c.start(func() { c.beats.acknowledge(acked) })
	}
}

func (c *crew) isNew(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.done[id]; known {
		return false
	}
	c.done[id] = struct{}{}
	if c.doneIDs = append(c.doneIDs, id); len(c.doneIDs) > directivesKept {
		delete(c.done, c.doneIDs[0])
		c.doneIDs = c.doneIDs[1:]
	}
	return true
}

func (c *crew) act(directive *workerv1.Directive) {
	c.session.log.Info("directive", "kind", directive.Kind, "job", directive.Job, "reason", directive.Reason)
	id := leaseID{directive.Job, directive.Fence}
	switch directive.Kind {
	case workerv1.DirectiveKind_DIRECTIVE_KIND_CANCEL:
		if lease := c.session.holdings.find(id); lease != nil {
			c.engine.stopLease(lease, StopCancel)
		}
	case workerv1.DirectiveKind_DIRECTIVE_KIND_LOST:
		c.lose(id)
	case workerv1.DirectiveKind_DIRECTIVE_KIND_DRAIN:
		c.engine.drain()
	case workerv1.DirectiveKind_DIRECTIVE_KIND_RECONNECT:
		if c.engine.link.renew("asked for by the coordinator") {
			c.beats.reconnected()
		}
	case workerv1.DirectiveKind_DIRECTIVE_KIND_SLOW_DOWN:
		c.poller.slowDown()
	case workerv1.DirectiveKind_DIRECTIVE_KIND_RESYNC:
		c.beats.tellInventory()
		c.poller.repeat()
	default:
		c.session.log.Warn("a directive of unknown kind is ignored", "kind", int32(directive.Kind))
	}
}

// run works until it is told to leave; the error is that of a session that was refused for good.
func (e *engine) run() error {
	wait := newBackoff(backoffFirst, backoffMax)
	for e.draining.Err() == nil {
		e.identity.RequestId = uuid.NewString()
		session, err := openSession(e.draining, e.link, e.identity, e.log)
		if err != nil {
			if e.draining.Err() != nil {
				return nil
			}
			return err
		}
		e.counters.add(&e.counters.Sessions, 1)
		openedAt := time.Now()
		crew := newCrew(e, session)
		// Beats first.
		crew.start(crew.beats.run)
		crew.start(crew.completions.run)
		crew.start(crew.poller.run)
		select {
		case <-e.draining.Done():
		case <-session.ended:
		}
		if session.endReason() == StopNone {
			e.leave(crew)
		}
		crew.dismiss()
		if reason := session.endReason(); reason != StopNone {
			e.lose(session.holdings.takeAll(), reason)
		}
		crew.wait.Wait()
		if time.Since(openedAt) > session.ttl {
			wait.reset()
		} else if e.draining.Err() == nil {
			sleep(e.draining, wait.next(0))
		}
	}
	return nil
}

// patience is how long a phase of leaving may take.
func (e *engine) patience(limit time.Duration) time.Duration {
	if e.hurried.Err() != nil {
		return min(limit, atOnce)
	}
	return limit
}

func (e *engine) leave(crew *crew) {
	session, started := crew.session, time.Now()
	used, _ := e.slots.look()
	session.log.Info("leaving", "running", used)
	session.draining.Store(true)
	crew.poller.stop()
	session.close(e.link, workerv1.CloseMode_CLOSE_MODE_DRAIN, e.patience(closeTimeout))
	e.giveBackUnstarted(session)
	// The coordinator answers the parked poll; what it grants still goes back.
	select {
	case <-crew.poller.done:
	case <-time.After(e.patience(parkedPollGrace)):
		crew.poller.abandon()
		<-crew.poller.done
	}
	e.giveBackUnstarted(session)
	idle := e.waitIdle(session, time.Until(started.Add(e.config.DrainTimeout)), true)
	if !idle && session.endReason() == StopNone {
		used, _ = e.slots.look()
		session.log.Warn("handlers have not ended in time and are stopped", "running", used)
		for _, lease := range session.holdings.snapshot() {
			e.stopLease(lease, StopLeaving)
		}
		if !e.waitIdle(session, e.config.UnwindTimeout, true) && e.hurried.Err() != nil {
			e.waitIdle(session, e.patience(e.config.UnwindTimeout), false)
		}
		for _, lease := range session.holdings.snapshot() {
			if lease.settle(false) {
				e.deliver(released(lease, "the worker leaves before the handler ended", 0))
			}
		}
	}
	// A TTL at least: for so long outcomes are worth something although nobody answers.
	if !crew.completions.flush(e.patience(max(flushTimeout, session.ttl))) {
		session.log.Error("leaving with outcomes that were not answered")
	}
	if session.endReason() == StopNone {
		session.close(e.link, workerv1.CloseMode_CLOSE_MODE_NOW, e.patience(closeTimeout))
	}
	session.log.Info("left", "after", time.Since(started))
}

// waitIdle waits until no handler runs; whether that came.
func (e *engine) waitIdle(session *session, limit time.Duration, heedHurry bool) bool {
	timer := time.NewTimer(max(0, limit))
	defer timer.Stop()
	hurried := e.hurried.Done()
	if !heedHurry {
		hurried = nil
	}
	for {
		used, changed := e.slots.look()
		if used <= 0 {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-hurried:
			return false
		case <-session.ended:
			return false
		}
	}
}

func (e *engine) giveBackUnstarted(session *session) {
	for _, lease := range session.holdings.snapshot() {
		e.withdraw(lease, released(lease, "the worker leaves", 0))
	}
}

func (e *engine) free() int {
	used, _ := e.slots.look()
	return e.slots.total - used
}

func (e *engine) lose(leases []*Lease, why Stop) {
	if len(leases) == 0 {
		return
	}
	e.counters.add(&e.counters.Lost, len(leases))
	e.log.Warn("leases lost", "count", len(leases), "reason", why.String(), "first", leases[0].Job())
	for _, lease := range leases {
		e.stopLease(lease, why)
	}
}

func (e *engine) stopLease(lease *Lease, reason Stop) { lease.askToStop(reason) }

// giveUp ends a lease without waiting for its handler, which keeps its slot until it returns.
func (e *engine) giveUp(lease *Lease) {
	if lease.is(queued) {
		e.withdraw(lease, released(lease, "it could not be started in time", 0))
	} else if lease.settle(false) {
		e.deliver(timedOut(lease, ""))
	}
}

// withdraw ends a lease whose handler has not started.
func (e *engine) withdraw(lease *Lease, instead *outcome) {
	if lease.settle(true) {
		e.deliver(instead)
		lease.cancel(context.Canceled)
	}
}

// deliver hands on an outcome that is worth sending.
func (e *engine) deliver(item *outcome) {
	if item.lease.worthless() {
		e.counters.add(&e.counters.Dropped, 1)
		return
	}
	if failure := item.result.GetFailed().GetFailure(); failure != nil {
		item.lease.session.log.Warn(
			"attempt failed", "job", item.lease.Job(), "attempt", item.lease.Attempt(), "fence", item.lease.Fence(),
			"type", failure.Type, "message", failure.Message,
		)
	}
	item.lease.session.completions.put(item)
}

func (e *engine) startLeases(leases []*Lease) {
	e.counters.add(&e.counters.Leased, len(leases))
	for _, lease := range leases {
		handler := e.handlers[lease.Type()]
		if handler == nil {
			lease.session.log.Error("no handler for this type; given back", "job", lease.Job(), "type", lease.Type())
			e.withdraw(lease, released(lease, "no handler for this type", noHandlerDelay))
			e.slots.give(1)
			continue
		}
		select {
		// In the order of the answer, which is that of the queue.
		case e.running <- struct{}{}:
			go e.runLease(lease, handler)
		default:
			go e.runLater(lease, handler)
		}
	}
}

// runLater is for more jobs than there are slots: the coordinator gave more than it was asked for.
func (e *engine) runLater(lease *Lease, handler Handler) {
	select {
	case e.running <- struct{}{}:
		e.runLease(lease, handler)
	case <-lease.ctx.Done():
		// It was withdrawn while it waited, or has to be.
		e.admit(lease)
		e.slots.give(1)
	}
}

func (e *engine) runLease(lease *Lease, handler Handler) {
	// Whoever waits for the context of an attempt that has ended goes on.
	defer lease.cancel(context.Canceled)
	var made *outcome
	if e.admit(lease) {
		made = e.handle(lease, handler)
	}
	<-e.running
	// The slot first: the sender of outcomes waits for company while handlers run.
	e.slots.give(1)
	if made != nil && lease.settle(false) {
		e.deliver(made)
	}
}

// admit says whether the handler starts; when it does not, the lease has its outcome.
func (e *engine) admit(lease *Lease) bool {
	if reason := lease.session.endReason(); reason != StopNone {
		// It came with the last answer of a session that is no more.
		lease.askToStop(reason)
	}
	if lease.StopReason() == StopNone && !lease.session.draining.Load() {
		// Not so when it was withdrawn, and thereby has its outcome.
		return lease.begin()
	}
	instead := released(lease, "the worker leaves", 0)
	if lease.StopReason() == StopCancel {
		instead = cancelled(lease, "cancelled before it started", "")
	}
	e.withdraw(lease, instead)
	return false
}

func (e *engine) handle(lease *Lease, handler Handler) *outcome {
	ctx, traced := startRun(lease.ctx, e.tracer, lease)
	if !lease.runUntil.IsZero() {
		// For user code that plans by its deadline; the stop itself comes from the beats.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, lease.runUntil.Add(timeoutReportGrace))
		defer cancel()
	}
	parent := ""
	if traced.SpanContext().IsValid() && traced.IsRecording() {
		parent = traceparentOf(ctx)
	}
	value, err := protected(ctx, lease, handler)
	var made *outcome
	if err != nil {
		made = ofError(lease, err, parent)
	} else {
		made = succeeded(lease, value, parent)
	}
	endRun(traced, made, err)
	return made
}

// protected calls the handler, and makes an error of a panic.
func protected(ctx context.Context, lease *Lease, handler Handler) (value any, err error) {
	defer func() {
		if found := recover(); found != nil {
			err = &panicError{found, string(debug.Stack())}
			if cause, ok := found.(error); ok && errors.Is(cause, context.Canceled) {
				err = cause
			}
		}
	}()
	return handler(ctx, lease)
}

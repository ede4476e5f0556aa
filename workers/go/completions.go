package rota

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

// Given by gRPC itself, without a word of Rota's, to a request beyond the server's receive limit.
const tooLarge = "larger than max"

// completions reports outcomes: many in one call, each until it is answered or its lease is lost. One that is refused
// never holds up the others of its call.
type completions struct {
	session *session
	link    *link
	crew    *crew
	wake    chan struct{}

	mu         sync.Mutex
	queue      []*outcome
	unanswered int
	drained    chan struct{}

	// Refused one by one for the moment: each goes again at its own instant and holds up nobody.
	postponed []postponed
	backoff   backoff
}

type postponed struct {
	at   time.Time
	item *outcome
}

func newCompletions(session *session, link *link, crew *crew) *completions {
	return &completions{
		session: session, link: link, crew: crew, wake: make(chan struct{}, 1), drained: make(chan struct{}),
		backoff: newBackoff(backoffFirst, backoffMax),
	}
}

// put takes an outcome, from any goroutine; it never waits.
func (c *completions) put(item *outcome) {
	c.mu.Lock()
	c.unanswered++
	c.queue = append(c.queue, item)
	c.mu.Unlock()
	nudge(c.wake)
}

// flush waits until everything put so far is answered or dropped; whether it is.
func (c *completions) flush(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		c.mu.Lock()
		left, changed := c.unanswered, c.drained
		c.mu.Unlock()
		if left == 0 {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

func (c *completions) run() {
	for c.waitForSome() {
		c.linger()
		c.send(c.nextBatch())
	}
	c.mu.Lock()
	rest := len(c.queue) + len(c.postponed)
	c.queue = nil
	c.mu.Unlock()
	c.drop(rest)
}

// waitForSome is false when the crew ends.
func (c *completions) waitForSome() bool {
	for {
		var due <-chan time.Time
		now := time.Now()
		kept := c.postponed[:0]
		c.mu.Lock()
		var next time.Time
		for _, each := range c.postponed {
			if each.at.After(now) {
				kept = append(kept, each)
				if next.IsZero() || each.at.Before(next) {
					next = each.at
				}
			} else {
				c.queue = append(c.queue, each.item)
			}
		}
		c.postponed = kept
		waiting := len(c.queue)
		c.mu.Unlock()
		if c.crew.ctx.Err() != nil {
			return false
		}
		if waiting > 0 {
			return true
		}
		if !next.IsZero() {
			due = time.After(next.Sub(now))
		}
		select {
		case <-c.crew.ctx.Done():
			return false
		case <-c.wake:
		case <-due:
		}
	}
}

// linger waits for company while more outcomes are expected and do come: at most 5 ms.
func (c *completions) linger() {
	until := time.Now().Add(outcomeLinger)
	for seen := 0; ; {
		c.mu.Lock()
		waiting := len(c.queue)
		c.mu.Unlock()
		used, _ := c.crew.engine.slots.look()
		if waiting <= seen || waiting >= c.session.maxResults || used <= 0 || !time.Now().Before(until) {
			return
		}
		seen = waiting
		if !sleep(c.crew.ctx, time.Millisecond) {
			return
		}
	}
}

func (c *completions) nextBatch() []*outcome {
	var batch []*outcome
	dropped, size := 0, 0
	c.mu.Lock()
	for len(c.queue) > 0 && len(batch) < c.session.maxResults {
		first := c.queue[0]
		if len(batch) > 0 && size+first.size > sendBytesMax {
			break
		}
		c.queue = c.queue[1:]
		if first.lease.worthless() || c.session.endReason() != StopNone {
			dropped++
			continue
		}
		size += first.size
		batch = append(batch, first)
	}
	c.mu.Unlock()
	c.drop(dropped)
	return batch
}

func (c *completions) drop(count int) {
	if count > 0 {
		c.session.log.Info("outcomes dropped, their leases are lost", "count", count)
		c.crew.engine.counters.add(&c.crew.engine.counters.Dropped, count)
		c.answered(count)
	}
}

func (c *completions) answered(count int) {
	c.mu.Lock()
	c.unanswered -= count
	if c.unanswered == 0 {
		close(c.drained)
		c.drained = make(chan struct{})
	}
	c.mu.Unlock()
}

func (c *completions) send(batch []*outcome) {
	if len(batch) == 0 {
		return
	}
	request := &workerv1.CompleteRequest{Session: c.session.name}
	for _, item := range batch {
		request.Results = append(request.Results, item.result)
	}
	response, err := call(c.crew.ctx, completeTimeout, c.link.client().Complete, request)
	if err != nil {
		c.onRefusal(batch, err)
		return
	}
	c.backoff.reset()
	c.settle(batch, response)
}

// onRefusal: the call as a whole failed.
func (c *completions) onRefusal(batch []*outcome, err error) {
	code := codeOf(err)
	switch {
	case code == codes.NotFound:
		c.session.end(StopSessionGone, err.Error())
		c.drop(len(batch))
	case code == codes.InvalidArgument || (code == codes.ResourceExhausted && strings.Contains(err.Error(), tooLarge)):
		if len(batch) == 1 {
			c.reject(batch[0], err)
			return
		}
		// One of them is at fault, and the others must not wait for it.
		half := len(batch) / 2
		c.send(batch[:half])
		c.send(batch[half:])
	default:
		wait := c.backoff.next(retryAfterOf(err))
		level := slog.LevelDebug
		if !transient(err) {
			wait, level = max(wait, slowDown), slog.LevelError
		}
		c.session.log.Log(context.Background(), level, "outcomes not taken", "count", len(batch), "again_in", wait, "error", err)
		c.mu.Lock()
		c.queue = append(append([]*outcome{}, batch...), c.queue...)
		c.mu.Unlock()
		sleep(c.crew.ctx, wait)
	}
}

func (c *completions) settle(batch []*outcome, response *workerv1.CompleteResponse) {
	answered := 0
	for at, item := range batch {
		if at >= len(response.Statuses) {
			// A malformed answer says nothing of the rest.
			c.postponed = append(c.postponed, postponed{time.Now().Add(slowDown), item})
			continue
		}
		status := response.Statuses[at].GetStatus()
		if status.GetCode() == int32(codes.OK) {
			c.session.holdings.remove(item.lease)
			c.crew.engine.counters.count(item.kind)
			answered++
			continue
		}
		c.onStatus(item, fromStatus(status))
	}
	if answered > 0 {
		c.answered(answered)
	}
}

func (c *completions) onStatus(item *outcome, err *Error) {
	switch {
	case transient(err):
		wait := min(backoffFirst<<min(item.repeated, 7), backoffMax)
		item.repeated++
		c.postponed = append(c.postponed, postponed{time.Now().Add(max(wait, err.RetryAfter)), item})
	case err.Code == codes.InvalidArgument:
		c.reject(item, err)
	default:
		// Final: a stale fence, another outcome stored, another owner.
		level := slog.LevelError
		if err.Code == codes.Aborted {
			level = slog.LevelInfo
		}
		c.session.log.Log(context.Background(), level, "outcome refused", "job", item.lease.Job(), "kind", item.kind, "error", err)
		c.crew.lose(item.lease.key())
		c.drop(1)
	}
}

// reject: a content that the coordinator cannot take fails the attempt, and says why.
func (c *completions) reject(item *outcome, err error) {
	c.session.log.Error("outcome refused", "job", item.lease.Job(), "kind", item.kind, "error", err)
	if item.rejected {
		// Even the plain failure is refused. The coordinator ends the attempt at its run timeout.
		c.session.holdings.remove(item.lease)
		c.drop(1)
		return
	}
	c.mu.Lock()
	c.queue = append([]*outcome{item.rejectedFor(err.Error())}, c.queue...)
	c.mu.Unlock()
}

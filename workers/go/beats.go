package rota

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"

	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

// beats are the signs of life of a session. One goroutine keeps the time of everything that must happen whatever handlers
// do: beats, the session's TTL, run timeouts. It never waits for the network. Beats go over the stream while it carries,
// else one by one.
type beats struct {
	session *session
	link    *link
	crew    *crew

	// Words to the goroutine.
	acks      chan []int64
	inventory chan struct{}
	prove     chan bool
	anew      chan struct{}
	heard     chan heard

	// Its own.
	seq       int64
	urgent    bool
	lastAt    time.Time
	unacked   map[int64]struct{}
	sent      map[int64]sentBeat
	wanted    int64
	answered  int64
	proveAt   time.Time
	retryAt   time.Time
	renewAt   time.Time
	retry     backoff
	renew     backoff
	patience  time.Duration
	stream    *beatStream
	streamAt  time.Time
	openedAt  time.Time
	quick     int
	streams   backoff
	noStreams bool
}

type sentBeat struct {
	at        time.Time
	acks      []int64
	inventory int64
}

// heard is what came back: from a stream, or as the answer to a lone beat.
type heard struct {
	stream  *beatStream
	message *workerv1.HeartbeatResponse
	ack     *workerv1.BeatAck
	sent    sentBeat
	err     error
	ended   bool
}

func newBeats(session *session, link *link, crew *crew) *beats {
	return &beats{
		session: session, link: link, crew: crew,
		acks: make(chan []int64, 64), inventory: make(chan struct{}, 1), prove: make(chan bool, 1),
		anew: make(chan struct{}, 1), heard: make(chan heard, 64),
		unacked: map[int64]struct{}{}, sent: map[int64]sentBeat{},
		retry: newBackoff(backoffFirst, backoffMax), renew: newBackoff(renewInterval, renewIntervalMax),
		streams: newBackoff(streamBackoffFirst, streamBackoffMax),
		// An answer that takes longer than this is not worth waiting for.
		patience: min(session.beatInterval, session.ttl/5),
	}
}

// acknowledge: these directives are carried out, which a beat says at once, and again until it is answered.
func (b *beats) acknowledge(directives []int64) {
	select {
	case b.acks <- directives:
	case <-b.crew.ctx.Done():
	}
}

// tellInventory sends a full inventory with a beat at once, and again until it is answered.
func (b *beats) tellInventory() { nudge(b.inventory) }

// reconnected: the link is new, so a stream is opened on it at once.
func (b *beats) reconnected() { nudge(b.anew) }

// proveSoon: a batch must be proven received, well within its delivery TTL; or its proof is on the way.
func (b *beats) proveSoon(needed bool) {
	for {
		select {
		case b.prove <- needed:
			return
		case <-b.crew.ctx.Done():
			return
		case <-b.prove:
			// Only the latest word counts.
		}
	}
}

func nudge(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

func (b *beats) run() {
	now := time.Now()
	b.lastAt, b.streamAt = now, now
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() {
		if b.stream != nil {
			b.stream.cancel()
		}
	}()
	for {
		select {
		case <-b.crew.ctx.Done():
			return
		case <-timer.C:
		case ids := <-b.acks:
			for _, id := range ids {
				b.unacked[id] = struct{}{}
			}
			b.urgent = true
		case <-b.inventory:
			b.wanted++
			b.urgent = true
		case needed := <-b.prove:
			if !needed {
				b.proveAt = time.Time{}
			} else if b.proveAt.IsZero() {
				b.proveAt = time.Now().Add(b.session.deliveryTTL / 5)
			}
		case <-b.anew:
			if b.stream != nil {
				b.stream.cancel()
			}
			b.stream, b.streamAt, b.quick = nil, time.Now(), 0
			clear(b.sent)
		case word := <-b.heard:
			b.hear(word)
		}
		timer.Reset(max(0, time.Until(b.step(time.Now()))))
	}
}

// step does what is due and says when to look again.
func (b *beats) step(now time.Time) time.Time {
	next := b.session.checkLife(now)
	late, stubborn, deadline := b.session.holdings.overdue(now)
	for _, lease := range late {
		b.crew.engine.stopLease(lease, StopTimedOut)
	}
	for _, lease := range stubborn {
		b.crew.engine.giveUp(lease)
	}
	if !b.proveAt.IsZero() && !now.Before(b.proveAt) {
		b.proveAt = time.Time{}
		b.wanted++
		b.urgent = true
	}
	due := (b.urgent && !now.Before(b.lastAt.Add(beatSpacing))) || !now.Before(b.lastAt.Add(b.session.beatInterval))
	due = due || (!b.retryAt.IsZero() && !now.Before(b.retryAt))
	if silent := b.silentAt(); !silent.IsZero() && !now.Before(silent) {
		b.session.log.Warn("the heartbeat stream does not answer; going on with single beats")
		b.stream.cancel()
		b.stream, b.streamAt = nil, now.Add(b.streams.next(0))
		clear(b.sent)
		due = true
	}
	if b.stream == nil && !b.noStreams && !now.Before(b.streamAt) {
		b.openStream(now)
	}
	if due {
		b.urgent, b.retryAt, b.lastAt = false, time.Time{}, now
		b.beat(now)
	}
	for _, at := range []time.Time{
		b.lastAt.Add(b.session.beatInterval), deadline, b.proveAt, b.retryAt, b.silentAt(), b.nextStreamAt(), b.urgentAt(),
		// Batches that came since have run timeouts of their own.
		now.Add(b.session.deliveryTTL / 5),
	} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

func (b *beats) urgentAt() time.Time {
	if b.urgent {
		return b.lastAt.Add(beatSpacing)
	}
	return time.Time{}
}

func (b *beats) nextStreamAt() time.Time {
	if b.stream == nil && !b.noStreams {
		return b.streamAt
	}
	return time.Time{}
}

// silentAt is when the stream's oldest unanswered beat runs out of patience.
func (b *beats) silentAt() time.Time {
	var oldest time.Time
	if b.stream == nil {
		return oldest
	}
	for _, sent := range b.sent {
		if oldest.IsZero() || sent.at.Before(oldest) {
			oldest = sent.at
		}
	}
	if oldest.IsZero() {
		return oldest
	}
	return oldest.Add(b.patience)
}

func (b *beats) beat(now time.Time) {
	b.seq++
	acks := make([]int64, 0, len(b.unacked))
	for id := range b.unacked {
		acks = append(acks, id)
	}
	made := &workerv1.Beat{
		Seq: b.seq, FreeSlots: int32(max(0, b.crew.engine.free())), Progress: b.session.takeNotes(), AckedDirectives: acks,
	}
	sent := sentBeat{at: now, acks: acks}
	if b.wanted > b.answered {
		made.Inventory = b.session.holdings.inventory()
		sent.inventory = b.wanted
	}
	if b.stream != nil && b.stream.live {
		b.sent[b.seq] = sent
		b.stream.send(&workerv1.HeartbeatRequest{Message: &workerv1.HeartbeatRequest_Beat{Beat: made}})
		return
	}
	request := &workerv1.SendHeartbeatRequest{Session: b.session.name, Beat: made}
	stub := b.link.client()
	b.crew.start(func() {
		answer, err := call(b.crew.ctx, b.patience, stub.SendHeartbeat, request)
		b.tell(heard{ack: answer.GetAck(), sent: sent, err: err})
	})
}

func (b *beats) tell(word heard) {
	select {
	case b.heard <- word:
	case <-b.crew.ctx.Done():
	}
}

func (b *beats) hear(word heard) {
	switch {
	case word.stream == nil && word.err != nil:
		b.onLoneFailure(word.err)
	case word.stream == nil:
		b.onAck(word.ack, word.sent)
	case word.ended:
		b.onStreamEnd(word.stream, word.err)
	case word.message.GetAck() != nil:
		if b.stream != nil && word.stream != b.stream {
			return
		}
		ack := word.message.GetAck()
		sent := b.sent[ack.Seq]
		delete(b.sent, ack.Seq)
		word.stream.live = true
		b.onAck(ack, sent)
	case word.message.GetDirective() != nil:
		b.crew.direct([]*workerv1.Directive{word.message.GetDirective()})
	default:
		b.session.log.Warn("a message of unknown kind is ignored")
	}
}

func (b *beats) onAck(ack *workerv1.BeatAck, sent sentBeat) {
	if !sent.at.IsZero() {
		b.session.renew(sent.at, given(ack.GetRenewedFor(), b.session.ttl))
		b.retry.reset()
		b.renew.reset()
		b.answered = max(b.answered, sent.inventory)
		for _, id := range sent.acks {
			delete(b.unacked, id)
		}
	}
	for _, held := range ack.GetLost() {
		b.crew.lose(leaseID{held.Job, held.Fence})
	}
	if len(ack.GetDirectives()) > 0 {
		b.crew.direct(ack.Directives)
	}
}

func (b *beats) onLoneFailure(err error) {
	if b.crew.ctx.Err() != nil || b.isGone(err) {
		return
	}
	b.session.log.Warn("beat", "error", err)
	now := time.Now()
	if transient(err) {
		b.retryAt = now.Add(b.retry.next(retryAfterOf(err)))
	}
	// Rarer each time: the coordinator may be slow instead of unreachable.
	if codeOf(err) == codes.DeadlineExceeded && !now.Before(b.renewAt) {
		b.renewAt = now.Add(b.renew.next(0))
		if b.link.renew("beats are not answered") {
			b.reconnected()
			b.crew.poller.repeat()
		}
	}
}

// isGone: the session is the only resource that these calls name.
func (b *beats) isGone(err error) bool {
	if codeOf(err) != codes.NotFound {
		return false
	}
	b.session.end(StopSessionGone, err.Error())
	return true
}

func (b *beats) onStreamEnd(stream *beatStream, err error) {
	if err != nil && b.isGone(err) {
		return
	}
	if stream != b.stream {
		return
	}
	b.stream = nil
	clear(b.sent)
	now := time.Now()
	if stream.live && now.Sub(b.openedAt) >= b.session.beatInterval {
		b.streams.reset()
		b.quick = 0
	}
	if stream.live && b.quick == 0 {
		b.streamAt = now
	} else {
		// Refused, or cut again and again: single beats until the next try.
		b.streamAt = now.Add(b.streams.next(0))
		b.urgent = true
	}
	b.quick++
	b.noStreams = codeOf(err) == codes.Unimplemented
	b.session.log.Info("heartbeat stream ended", "error", err)
}

func (b *beats) openStream(now time.Time) {
	b.wanted++
	hello := &workerv1.Hello{Session: b.session.name, Inventory: b.session.holdings.inventory()}
	ctx, cancel := context.WithCancel(b.crew.ctx)
	made := &beatStream{cancel: cancel, requests: make(chan *workerv1.HeartbeatRequest, 16)}
	b.sent[0] = sentBeat{at: now, inventory: b.wanted}
	b.stream, b.openedAt = made, now
	made.send(&workerv1.HeartbeatRequest{Message: &workerv1.HeartbeatRequest_Hello{Hello: hello}})
	stub := b.link.client()
	b.crew.start(func() {
		defer cancel()
		err := made.carry(ctx, stub, b)
		b.tell(heard{stream: made, err: err, ended: true})
	})
}

// beatStream is one Heartbeat stream. Only `requests` is for more than the beats' own goroutine.
type beatStream struct {
	cancel   context.CancelFunc
	requests chan *workerv1.HeartbeatRequest
	// live: the hello was answered, so the stream carries.
	live bool
}

// send never waits: a stream with so many beats under way is found silent soon.
func (s *beatStream) send(request *workerv1.HeartbeatRequest) {
	select {
	case s.requests <- request:
	default:
	}
}

// carry sends and hands on what comes back until either side ends the stream; nil when the coordinator ended it in peace.
func (s *beatStream) carry(ctx context.Context, stub workerv1.WorkerServiceClient, b *beats) error {
	stream, err := stub.Heartbeat(ctx)
	if err != nil {
		return fromRPC(err)
	}
	b.crew.start(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case request := <-s.requests:
				if stream.Send(request) != nil {
					return
				}
			}
		}
	})
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fromRPC(err)
		}
		b.tell(heard{stream: s, message: message})
	}
}

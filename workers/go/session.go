package rota

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

// The handler is warned when this part of the TTL went by without an answered beat.
const riskNumerator, riskDenominator = 2, 3

// session lives until an instant that only an answered beat moves on, counted from the instant of sending: the
// coordinator, which counts from receipt, never ends it earlier.
type session struct {
	name         string
	epoch        int64
	ttl          time.Duration
	deliveryTTL  time.Duration
	beatInterval time.Duration
	wait         time.Duration
	maxResults   int
	holdings     *holdings
	completions  *completions
	log          *slog.Logger

	atRisk atomic.Bool
	// draining: no handler starts any more; what was not started is given back.
	draining atomic.Bool
	ids      atomic.Int64

	mu        sync.Mutex
	renewedAt time.Time
	aliveFor  time.Duration
	endedFor  Stop
	ended     chan struct{}
	notes     map[leaseID]string
}

func newSession(answer *workerv1.OpenSessionResponse, sentAt time.Time, log *slog.Logger) *session {
	made := &session{
		name:        answer.Session,
		epoch:       answer.Epoch,
		ttl:         given(answer.LeaseTtl, leaseTTL),
		deliveryTTL: given(answer.DeliveryTtl, deliveryTTL),
		wait:        min(given(answer.MaxWait, leaseWait), leaseWait),
		maxResults:  resultsPerCallMax,
		holdings:    newHoldings(),
		renewedAt:   sentAt,
		ended:       make(chan struct{}),
		notes:       map[leaseID]string{},
		log:         log.With("session", answer.Session),
	}
	if answer.MaxResults > 0 {
		made.maxResults = min(int(answer.MaxResults), resultsPerCallMax)
	}
	// A server's mistake must not make beats rarer than the TTL can bear.
	made.beatInterval = min(given(answer.BeatInterval, beatInterval), made.ttl/3)
	made.aliveFor = made.ttl
	return made
}

func given(span *durationpb.Duration, otherwise time.Duration) time.Duration {
	if found := span.AsDuration(); found > 0 {
		return found
	}
	return otherwise
}

// nextRequestID is unique among all sessions, for one logical call or outcome.
func (s *session) nextRequestID() string {
	return strings.TrimPrefix(s.name, "sessions/") + "-" + strconv.FormatInt(s.ids.Add(1), 10)
}

// renew: a beat sent at sentAt was answered with so much life.
func (s *session) renew(sentAt time.Time, life time.Duration) {
	s.mu.Lock()
	// Answers may overtake each other; the latest beat says what holds.
	if s.endedFor == StopNone && !sentAt.Before(s.renewedAt) {
		s.renewedAt, s.aliveFor = sentAt, life
		if s.atRisk.Swap(false) {
			s.log.Info("beats are answered again")
		}
	}
	s.mu.Unlock()
}

// checkLife warns and ends as time demands; the next instant to look again.
func (s *session) checkLife(now time.Time) time.Time {
	s.mu.Lock()
	until := s.renewedAt.Add(s.aliveFor)
	risk := s.renewedAt.Add(s.aliveFor * riskNumerator / riskDenominator)
	s.mu.Unlock()
	if !now.Before(until) {
		s.end(StopExpired, "no beat was answered for its TTL")
		return now.Add(s.ttl)
	}
	if now.Before(risk) {
		return risk
	}
	if !s.atRisk.Swap(true) {
		s.log.Warn("no beat is answered", "left", until.Sub(now), "leases", s.holdings.len())
	}
	return until
}

// end marks the session as over, once; its crew ends with it.
func (s *session) end(reason Stop, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endedFor != StopNone {
		return
	}
	s.endedFor = reason
	s.log.Warn("session ended", "reason", reason.String(), "words", words)
	close(s.ended)
}

func (s *session) endReason() Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endedFor
}

func (s *session) note(lease *Lease, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[lease.key()] = words
}

func (s *session) takeNotes() []*workerv1.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	var told []*workerv1.Progress
	for id, words := range s.notes {
		if len(told) == beatNotesMax {
			break
		}
		told = append(told, &workerv1.Progress{Job: id.job, Fence: id.fence, Note: words})
		delete(s.notes, id)
	}
	return told
}

// openSession repeats the call, under one request_id, until it is answered or the context ends, whose error it then
// returns.
func openSession(ctx context.Context, link *link, request *workerv1.OpenSessionRequest, log *slog.Logger) (*session, error) {
	wait := newBackoff(backoffFirst, backoffMax)
	for failures := 1; ; failures++ {
		sentAt := time.Now()
		answer, err := call(ctx, connectTimeout, link.client().OpenSession, request)
		if err == nil {
			made := newSession(answer, sentAt, log)
			made.log.Info("session opened", "epoch", made.epoch, "ttl", made.ttl)
			return made, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !transient(err) {
			return nil, err
		}
		if codeOf(err) == codes.DeadlineExceeded {
			link.renew("no session within the time of a call")
		}
		level := slog.LevelDebug
		if failures == 1 || failures == 10 {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "no session yet", "error", err)
		if !sleep(ctx, wait.next(retryAfterOf(err))) {
			return nil, ctx.Err()
		}
	}
}

func (s *session) close(link *link, mode workerv1.CloseMode, limit time.Duration) {
	request := &workerv1.CloseSessionRequest{Session: s.name, Mode: mode}
	if _, err := call(context.Background(), limit, link.client().CloseSession, request); err != nil {
		// The TTL does the rest.
		s.log.Warn("close was not answered", "mode", mode, "error", err)
	}
}

// sleep is false when the context ended first.
func sleep(ctx context.Context, span time.Duration) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

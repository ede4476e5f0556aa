package rota

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"

	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

var connectParams = grpc.ConnectParams{
	// gRPC's own defaults (20 s to connect, up to 120 s between tries) would outlive a session's TTL.
	Backoff:           grpcbackoff.Config{BaseDelay: connectBackoffFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: connectBackoffMax},
	MinConnectTimeout: connectTimeout,
}

// link is the worker's connection, which can be exchanged for a new one under its calls.
type link struct {
	target target
	log    *slog.Logger

	mu        sync.Mutex
	conn      *grpc.ClientConn
	stub      workerv1.WorkerServiceClient
	renewedAt time.Time
	closed    bool
}

func newLink(t target, log *slog.Logger) (*link, error) {
	conn, err := t.dial()
	if err != nil {
		return nil, err
	}
	return &link{target: t, log: log, conn: conn, stub: workerv1.NewWorkerServiceClient(conn)}, nil
}

func (l *link) client() workerv1.WorkerServiceClient {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stub
}

// renew goes over to a new connection; false when that was done a moment ago or the link is closed. Calls on the old one
// have a moment to end.
func (l *link) renew(why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.closed || now.Sub(l.renewedAt) < renewInterval {
		return false
	}
	conn, err := l.target.dial()
	if err != nil {
		return false
	}
	l.log.Info("a new connection", "reason", why)
	old := l.conn
	l.renewedAt, l.conn, l.stub = now, conn, workerv1.NewWorkerServiceClient(conn)
	time.AfterFunc(leaseWait+leaseAnswerGrace, func() { _ = old.Close() })
	return true
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		_ = l.conn.Close()
	}
}

// call makes one call with a time limit, and gives its error the SDK's form.
func call[In, Out any](
	ctx context.Context, limit time.Duration, method func(context.Context, In, ...grpc.CallOption) (Out, error), request In,
) (Out, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := method(ctx, request)
	return answer, fromRPC(err)
}

package rota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

// Handler runs one attempt of a job. Its context ends when it must stop: see [StopReason]. What it returns is the job's
// result: nil, bytes, a string, a [Payload] or anything with a JSON form, up to 64 KiB. An error fails the attempt, and the
// job's retry policy decides what follows; [Retry], [Fatal], [Release], [Failed] and [EffectUnknown] say more.
type Handler func(ctx context.Context, lease *Lease) (any, error)

// WorkerConfig says what a worker takes. Zero values are defaults.
type WorkerConfig struct {
	Endpoint Endpoint
	// Queues to take jobs from; default: default.
	Queues []string
	// Slots are jobs that run at a time; default 10.
	Slots int
	// Name is for people; default: host and process id.
	Name string
	// BuildID is the build of the handlers, for people.
	BuildID string
	Labels  map[string]string
	// DrainTimeout is how long running handlers may take to end when the worker leaves; default 30 s, negative: none.
	DrainTimeout time.Duration
	// UnwindTimeout is how long they may take once they are asked to stop; default 1 s.
	UnwindTimeout time.Duration
	// Logger; default slog.Default().
	Logger *slog.Logger
	// TracerProvider; default: that of the OpenTelemetry API, which makes nothing until an application sets one.
	TracerProvider trace.TracerProvider
}

// Worker takes jobs from queues and runs up to Slots of them at a time, each in a goroutine of its own.
type Worker struct {
	config   WorkerConfig
	target   target
	handlers map[string]Handler
	counters counters

	mu     sync.Mutex
	engine *engine
	stop   bool
}

// NewWorker checks the configuration; it connects when it runs.
func NewWorker(config WorkerConfig) (*Worker, error) {
	if len(config.Queues) == 0 {
		config.Queues = []string{"default"}
	}
	if len(config.Queues) > queuesMax {
		return nil, fmt.Errorf("rota: WorkerConfig.Queues: expected at most %d names, found %d", queuesMax, len(config.Queues))
	}
	if config.Slots == 0 {
		config.Slots = 10
	}
	if config.Slots < 1 || config.Slots > slotsMax {
		return nil, fmt.Errorf("rota: WorkerConfig.Slots: expected 1 to %d, found %d", slotsMax, config.Slots)
	}
	if config.Name == "" {
		host, _ := os.Hostname()
		config.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	config.Name = clean(config.Name, identityBytesMax)
	config.DrainTimeout = orDefault(config.DrainTimeout, drainTimeout)
	config.UnwindTimeout = orDefault(config.UnwindTimeout, unwindTimeout)
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.TracerProvider == nil {
		config.TracerProvider = otel.GetTracerProvider()
	}
	target, err := config.Endpoint.resolve()
	if err != nil {
		return nil, err
	}
	return &Worker{config: config, target: target, handlers: map[string]Handler{}}, nil
}

func orDefault(given, otherwise time.Duration) time.Duration {
	if given == 0 {
		return otherwise
	}
	return max(0, given)
}

// Handle registers a handler for jobs of a type. It panics on a type that has one, on the 513th, and once the worker
// runs: these are mistakes of the program.
func (w *Worker) Handle(jobType string, handler Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.engine != nil {
		panic("rota: Handle: handlers are registered before the worker runs")
	}
	if _, known := w.handlers[jobType]; known || jobType == "" || handler == nil {
		panic(fmt.Sprintf("rota: Handle: expected a name without a handler, and a handler, found %q", jobType))
	}
	if len(w.handlers) >= typesMax {
		panic(fmt.Sprintf("rota: Handle: expected at most %d types; run another worker for the rest", typesMax))
	}
	w.handlers[jobType] = handler
}

// Handle registers a handler whose input and result are Go values, as JSON on the wire. Input that is not of its form
// fails the job for good. The lease is LeaseFrom(ctx).
func Handle[In, Out any](w *Worker, jobType string, handler func(ctx context.Context, in In) (Out, error)) {
	w.Handle(jobType, func(ctx context.Context, lease *Lease) (any, error) {
		var in In
		if data := lease.Payload().Data; len(data) > 0 {
			if err := json.Unmarshal(data, &in); err != nil {
				return nil, Fatal(fmt.Errorf("the payload is not of the form that %s takes: %w", jobType, err))
			}
		}
		return handler(ctx, in)
	})
}

// Run works until the context ends, then drains: nothing new is taken, jobs that have not started go back at once, running
// ones get DrainTimeout to end, their outcomes are answered, and the session is closed. It returns an error when the
// server refuses the session, for example for want of a valid API key; an unreachable server is waited for.
func (w *Worker) Run(ctx context.Context) error {
	link, err := newLink(w.target, w.config.Logger)
	if err != nil {
		return fmt.Errorf("rota: %w", err)
	}
	defer link.close()
	engine, err := w.begin(link)
	if err != nil || engine == nil {
		return err
	}
	stop := context.AfterFunc(ctx, engine.drain)
	defer stop()
	defer func() {
		w.mu.Lock()
		w.engine = nil
		w.mu.Unlock()
	}()
	return engine.run()
}

func (w *Worker) begin(link *link) (*engine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.handlers) == 0 {
		return nil, errors.New("rota: expected a handler, found none; register one with Handle")
	}
	if w.engine != nil {
		return nil, errors.New("rota: the worker runs already")
	}
	if w.stop {
		return nil, nil
	}
	made := &engine{
		config: w.config, link: link, handlers: w.handlers, slots: newSlots(w.config.Slots),
		running: make(chan struct{}, w.config.Slots), counters: &w.counters,
		tracer: tracerOf(w.config.TracerProvider), log: w.config.Logger,
		identity: &workerv1.OpenSessionRequest{
			Worker: w.config.Name, Sdk: sdkName, BuildId: w.config.BuildID, Queues: w.config.Queues,
			Types: slices.Sorted(maps.Keys(w.handlers)), Slots: int32(w.config.Slots), Labels: w.config.Labels,
			ProtocolVersion: protocol,
		},
	}
	made.hurried, made.hurry = context.WithCancel(context.Background())
	made.draining, made.drain = context.WithCancel(made.hurried)
	w.engine = made
	return made, nil
}

// Stop drains and ends, for good; from any goroutine, also before Run. `now`: without waiting for handlers.
func (w *Worker) Stop(now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop = true
	if w.engine == nil {
		return
	}
	if now {
		w.engine.hurry()
	}
	w.engine.drain()
}

// Counts say what it has done so far.
func (w *Worker) Counts() Counts { return w.counters.snapshot() }

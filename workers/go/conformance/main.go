// Command conformance runs the Go SDK under the conformance suite: see workers/conformance/README.md for the lines that it
// reads and writes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	rota "github.com/rota-scheduler/rota/workers/go"
)

const shownBytes = 1_000

type config struct {
	Address      string                     `json:"address"`
	APIKey       string                     `json:"api_key"`
	Queues       []string                   `json:"queues"`
	Slots        int                        `json:"slots"`
	DrainTimeout float64                    `json:"drain_timeout"`
	Trace        bool                       `json:"trace"`
	Types        map[string]json.RawMessage `json:"types"`
}

type failure struct {
	Message      string   `json:"message"`
	Type         string   `json:"type"`
	Retryable    *bool    `json:"retryable"`
	RetryAfter   *float64 `json:"retry_after"`
	MessageBytes int      `json:"message_bytes"`
	Text         string   `json:"text"`
}

var out sync.Mutex

func tell(event string, fields map[string]any) {
	fields["event"] = event
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	fmt.Println(string(line))
}

var finished sync.Map

func finish(job string) chan struct{} {
	found, _ := finished.LoadOrStore(job, make(chan struct{}))
	return found.(chan struct{})
}

func started(lease *rota.Lease) {
	payload := lease.Payload().Data
	shown := ""
	if len(payload) <= shownBytes {
		shown = string(payload)
	}
	headers := map[string]string{}
	for name := range lease.EffectHeaders() {
		headers[name] = lease.EffectHeaders().Get(name)
	}
	tell("started", map[string]any{
		"job": lease.Job(), "fence": lease.Fence(), "attempt": lease.Attempt(), "type": lease.Type(), "payload": shown,
		"payload_bytes": len(payload), "effect_key": lease.EffectKey(), "effect_headers": headers,
		"traceparent": lease.Traceparent(), "headers": lease.Headers(), "remaining": min(lease.Remaining().Seconds(), 1e9),
	})
}

// watch tells once that the attempt is at risk, and once for each reason to stop, before the handler has ended.
func watch(lease *rota.Lease) (end func()) {
	told := map[string]bool{}
	once := func(key, event string, fields map[string]any) {
		if !told[key] {
			told[key] = true
			fields["job"], fields["fence"] = lease.Job(), lease.Fence()
			tell(event, fields)
		}
	}
	look := func() {
		if lease.AtRisk() {
			once("at_risk", "at_risk", map[string]any{})
		}
		if reason := reasonOf(lease.StopReason()); reason != "" {
			once(reason, "stopping", map[string]any{"reason": reason})
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				look()
				return
			case <-time.After(20 * time.Millisecond):
				look()
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

func reasonOf(stop rota.Stop) string {
	switch stop {
	case rota.StopNone:
		return ""
	case rota.StopTimedOut:
		return "timeout"
	case rota.StopLeaving:
		return "leaving"
	case rota.StopCancel:
		return "cancel"
	}
	return "lost"
}

func hold(ctx context.Context, lease *rota.Lease) (any, error) {
	select {
	case <-finish(lease.Job()):
		return "finished", nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func fail(given failure) error {
	message := given.Message
	if message == "" {
		message = "went wrong"
	}
	if given.Text == "nul-and-surrogate" {
		// What a lone surrogate looks like in UTF-8, which is not valid.
		message = "before\x00middle\xed\xa0\x80after"
	}
	if given.MessageBytes > 0 {
		message = strings.Repeat("é", given.MessageBytes/2)
	}
	err := errors.New(message)
	switch {
	case given.Retryable != nil && !*given.Retryable:
		return rota.Fatal(err)
	case given.RetryAfter != nil:
		return rota.Retry(err, seconds(*given.RetryAfter))
	case given.Type != "":
		return &rota.Failed{Type: given.Type, Message: message}
	}
	return err
}

func seconds(given float64) time.Duration { return time.Duration(given * float64(time.Second)) }

func act(ctx context.Context, lease *rota.Lease, name string, argument json.RawMessage) (any, error) {
	var text string
	var number float64
	_ = json.Unmarshal(argument, &text)
	_ = json.Unmarshal(argument, &number)
	switch name {
	case "return":
		if text == "" {
			text = "ok"
		}
		return text, nil
	case "hold":
		return hold(ctx, lease)
	case "deaf":
		time.Sleep(seconds(number))
		return "late", nil
	case "block":
		for until := time.Now().Add(seconds(number)); time.Now().Before(until); {
			// Busy, without a point at which it would give way.
		}
		return "blocked", nil
	case "fail":
		var given failure
		if err := json.Unmarshal(argument, &given); err != nil {
			return nil, err
		}
		return nil, fail(given)
	case "result_bytes":
		return make([]byte, int(number)), nil
	case "release":
		return nil, rota.Release("the case says so", seconds(number))
	case "unasked":
		return nil, rota.ErrCancelled
	case "unknown_effect":
		return nil, rota.EffectUnknown(errors.New("no answer from the target"))
	case "spawn":
		for n := range int(number) {
			if err := lease.Spawn(rota.NewJob{Type: "child", Payload: map[string]int{"n": n}}); err != nil {
				return nil, err
			}
		}
		return "spawned", nil
	case "receipt":
		return "receipted", lease.Receipt(text)
	case "progress":
		lease.Progress(text)
		return hold(ctx, lease)
	}
	panic("no such behaviour: " + name)
}

func handler(behaviour json.RawMessage) rota.Handler {
	var name string
	var argument json.RawMessage
	if json.Unmarshal(behaviour, &name) != nil {
		var given map[string]json.RawMessage
		if err := json.Unmarshal(behaviour, &given); err != nil {
			panic(err)
		}
		for key, value := range given {
			name, argument = key, value
		}
	}
	return func(ctx context.Context, lease *rota.Lease) (any, error) {
		started(lease)
		end := watch(lease)
		defer func() {
			end()
			tell("ended", map[string]any{"job": lease.Job(), "fence": lease.Fence()})
		}()
		return act(ctx, lease, name, argument)
	}
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	var given config
	if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
		panic(err)
	}
	settings := rota.WorkerConfig{
		Endpoint: rota.Endpoint{Address: given.Address, APIKey: given.APIKey}, Queues: given.Queues, Slots: given.Slots,
		DrainTimeout: seconds(given.DrainTimeout),
	}
	if given.Trace {
		settings.TracerProvider = sdktrace.NewTracerProvider()
	}
	worker, err := rota.NewWorker(settings)
	if err != nil {
		panic(err)
	}
	for name, behaviour := range given.Types {
		worker.Handle(name, handler(behaviour))
	}
	go func() {
		for lines.Scan() {
			var word struct {
				Finish string `json:"finish"`
			}
			if json.Unmarshal(lines.Bytes(), &word) == nil {
				close(finish(word.Finish))
			}
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// The second signal ends the process, as signals do.
	context.AfterFunc(ctx, stop)
	var refused *rota.Error
	if err := worker.Run(ctx); errors.As(err, &refused) {
		tell("refused", map[string]any{"reason": refused.Reason, "message": refused.Error()})
		os.Exit(1)
	} else if err != nil {
		panic(err)
	}
	tell("left", map[string]any{"counts": worker.Counts()})
}

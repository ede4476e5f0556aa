package rota

import (
	"context"
	"strings"
	"testing"
)

func TestBadOptionsAreNamed(t *testing.T) {
	emptyEnvironment(t)
	for name, config := range map[string]WorkerConfig{
		"Slots":   {Slots: slotsMax + 1},
		"Queues":  {Queues: make([]string, queuesMax+1)},
		"address": {Endpoint: Endpoint{Address: "ftp://x"}},
	} {
		if _, err := NewWorker(config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("expected an error that names %s, found %v", name, err)
		}
	}
}

func TestAWorkerWithoutHandlersDoesNotRun(t *testing.T) {
	emptyEnvironment(t)
	worker, err := NewWorker(WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "Handle") {
		t.Errorf("expected an error that says what to do, found %v", err)
	}
}

func TestHandlersAreRegisteredOnce(t *testing.T) {
	emptyEnvironment(t)
	worker, _ := NewWorker(WorkerConfig{})
	handler := func(context.Context, *Lease) (any, error) { return nil, nil }
	worker.Handle("work", handler)
	for _, name := range []string{"work", ""} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q: expected a panic", name)
				}
			}()
			worker.Handle(name, handler)
		}()
	}
}

func TestAWorkerThatWasStoppedBeforeItRanEndsAtOnce(t *testing.T) {
	emptyEnvironment(t)
	worker, _ := NewWorker(WorkerConfig{Endpoint: Endpoint{Address: "127.0.0.1:1"}})
	worker.Handle("work", func(context.Context, *Lease) (any, error) { return nil, nil })
	worker.Stop(false)
	if err := worker.Run(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestInputOfAnotherFormFailsForGood(t *testing.T) {
	emptyEnvironment(t)
	worker, _ := NewWorker(WorkerConfig{})
	Handle(worker, "greet", func(_ context.Context, in struct{ Name string }) (string, error) { return in.Name, nil })
	lease := testLease(t)
	lease.message.Payload = Payload{Data: []byte(`{"Name": 3}`)}.message()
	_, err := worker.handlers["greet"](lease.ctx, lease)
	if made := ofError(lease, err, ""); made.kind != kindFailed || made.result.GetFailed().GetRetryable() {
		t.Errorf("found %v", made.result)
	}
	lease.message.Payload = Payload{Data: []byte(`{"Name": "Ada"}`)}.message()
	if found, err := worker.handlers["greet"](lease.ctx, lease); err != nil || found != "Ada" {
		t.Errorf("found %v, %v", found, err)
	}
}

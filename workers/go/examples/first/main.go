// A first worker: run `rota dev` beside it.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	rota "github.com/rota-scheduler/rota/workers/go"
)

type greeting struct {
	Name string `json:"name"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	worker, err := rota.NewWorker(rota.WorkerConfig{Queues: []string{"default"}, Slots: 10})
	if err != nil {
		log.Fatal(err)
	}
	rota.Handle(worker, "greet", func(ctx context.Context, in greeting) (string, error) {
		return "hello " + in.Name, nil
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Command fleet is the Go SDK's worker of the mixed fleet and of the benchmark: see workers/conformance/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	rota "github.com/rota-scheduler/rota/workers/go"
	"github.com/rota-scheduler/rota/workers/go/rotapgx"
)

const sayEvery = 100

var started atomic.Int64

func starting() {
	if n := started.Add(1); n%sayEvery == 0 {
		fmt.Printf("{\"started\": %d}\n", n)
	}
}

type wish struct {
	SlowMS float64 `json:"slow_ms"`
	Fails  float64 `json:"fails"`
}

// pay makes one row for each job, in the transaction of its effect key; it goes wrong at random before or after it.
func pay(ctx context.Context, target *pgxpool.Pool, in wish) error {
	starting()
	lease := rota.LeaseFrom(ctx)
	select {
	case <-time.After(time.Duration(in.SlowMS * float64(time.Millisecond))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if rand.Float64() < in.Fails {
		return errors.New("the target is away")
	}
	err := pgx.BeginFunc(ctx, target, func(tx pgx.Tx) error {
		first, err := rotapgx.Once(ctx, tx, lease)
		if err != nil || !first {
			return err
		}
		_, err = tx.Exec(ctx, "insert into payments (job, fence, sdk) values ($1, $2, 'go')", lease.Job(), lease.Fence())
		return err
	})
	if err != nil {
		return err
	}
	if rand.Float64() < in.Fails {
		return errors.New("failed after its commit")
	}
	return nil
}

func main() {
	slots := flag.Int("slots", 20, "jobs at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	worker, err := rota.NewWorker(rota.WorkerConfig{Slots: *slots})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("noop", func(context.Context, *rota.Lease) (any, error) {
		starting()
		return nil, nil
	})
	var target *pgxpool.Pool
	if url := os.Getenv("FLEET_TARGET"); url != "" {
		if target, err = pgxpool.New(ctx, url); err != nil {
			log.Fatal(err)
		}
		defer target.Close()
	}
	rota.Handle(worker, "pay", func(ctx context.Context, in wish) (any, error) { return nil, pay(ctx, target, in) })
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	fmt.Printf("{\"ready_cpu_s\": %f}\n", cpu.Seconds())
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Package rota is the client and the worker of Rota, the durable job scheduler.
//
// A worker takes jobs from queues and runs them with functions of yours:
//
//	worker, err := rota.NewWorker(rota.WorkerConfig{Queues: []string{"default"}, Slots: 10})
//	rota.Handle(worker, "greet", func(ctx context.Context, in Greeting) (string, error) {
//		return "hello " + in.Name, nil
//	})
//	err = worker.Run(ctx)
//
// Execution is at least once: a worker that is cut off for longer than its session's TTL loses its leases, and they go
// to another. The context of a handler ends when it must stop, and [StopReason] says why. For effects that must happen
// once see [Lease.EffectKey], [Lease.EffectHeaders] and the package rotapgx.
package rota

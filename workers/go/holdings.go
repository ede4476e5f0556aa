package rota

import (
	"sync"
	"time"

	workerv1 "github.com/rota-scheduler/rota/workers/go/gen/rota/worker/v1"
)

type leaseID struct {
	job   string
	fence int64
}

// holdings are the leases of a session, from receipt to the answered outcome, and for each poller the last batch
// received. A batch and its leases become visible together, so that an inventory never claims a batch without them.
type holdings struct {
	mu      sync.Mutex
	leases  map[leaseID]*Lease
	batches map[int32]int64
	// late are those that were asked to stop at their run timeout.
	late map[leaseID]time.Time
}

func newHoldings() *holdings {
	return &holdings{leases: map[leaseID]*Lease{}, batches: map[int32]int64{}, late: map[leaseID]time.Time{}}
}

// add takes a batch in; the leases that were not held before: an answer may come twice.
func (h *holdings) add(poller int32, batch int64, leases []*Lease) []*Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if batch != 0 {
		h.batches[poller] = batch
	}
	fresh := leases[:0]
	for _, lease := range leases {
		if _, held := h.leases[lease.key()]; !held {
			h.leases[lease.key()] = lease
			fresh = append(fresh, lease)
		}
	}
	return fresh
}

func (h *holdings) remove(lease *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leases, lease.key())
	delete(h.late, lease.key())
}

func (h *holdings) find(id leaseID) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases[id]
}

// takeOne is the lease, which is held no more; nil when it was not.
func (h *holdings) takeOne(id leaseID) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.leases[id]
	delete(h.leases, id)
	delete(h.late, id)
	return found
}

func (h *holdings) takeAll() []*Lease {
	all := h.snapshot()
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.leases)
	clear(h.late)
	return all
}

func (h *holdings) snapshot() []*Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*Lease, 0, len(h.leases))
	for _, lease := range h.leases {
		all = append(all, lease)
	}
	return all
}

func (h *holdings) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.leases)
}

// overdue are leases whose run timeout has ended, and those that went on for a moment after; and when to look again.
func (h *holdings) overdue(now time.Time) (late, stubborn []*Lease, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, lease := range h.leases {
		until := lease.runUntil
		if given, asked := h.late[id]; asked {
			if until = given; !until.After(now) {
				stubborn = append(stubborn, lease)
				continue
			}
		} else if !until.IsZero() && !until.After(now) {
			late = append(late, lease)
			until = now.Add(timeoutReportGrace)
			h.late[id] = until
		}
		if !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return late, stubborn, next
}

func (h *holdings) inventory() *workerv1.Inventory {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := &workerv1.Inventory{Batches: make(map[int32]int64, len(h.batches))}
	for poller, batch := range h.batches {
		told.Batches[poller] = batch
	}
	for id := range h.leases {
		told.Leases = append(told.Leases, &workerv1.HeldLease{Job: id.job, Fence: id.fence})
	}
	return told
}

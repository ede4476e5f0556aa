package rota

import "sync"

// Counts say what a worker has done so far.
type Counts struct {
	Sessions  int
	Leased    int
	Lost      int
	Dropped   int
	Succeeded int
	Failed    int
	Released  int
	Cancelled int
}

type counters struct {
	mu sync.Mutex
	Counts
}

func (c *counters) add(field *int, count int) {
	c.mu.Lock()
	*field += count
	c.mu.Unlock()
}

// count notes an outcome that was accepted.
func (c *counters) count(kind string) {
	c.add(map[string]*int{
		kindSucceeded: &c.Succeeded, kindFailed: &c.Failed, kindReleased: &c.Released, kindCancelled: &c.Cancelled,
	}[kind], 1)
}

func (c *counters) snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Counts
}

package rota

import "sync"

// slots is the one counter of capacity: free = total - (running + received and not yet started). Sessions share it, since
// a handler that outlives its session still takes its slot.
type slots struct {
	total int

	mu      sync.Mutex
	used    int
	changed chan struct{}
}

func newSlots(total int) *slots {
	return &slots{total: total, changed: make(chan struct{})}
}

func (s *slots) take(count int) {
	s.mu.Lock()
	s.used += count
	s.mu.Unlock()
}

func (s *slots) give(count int) {
	s.mu.Lock()
	s.used -= count
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

// look is how many are used, and a channel that is closed when some become free.
func (s *slots) look() (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.changed
}

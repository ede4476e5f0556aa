package rota

import (
	"math/rand/v2"
	"time"
)

// backoff gives doubling waits with jitter, so that many workers do not come back in the same instant.
type backoff struct {
	first, most, bound time.Duration
}

func newBackoff(first, most time.Duration) backoff {
	return backoff{first: first, most: most, bound: first}
}

func (b *backoff) reset() { b.bound = b.first }

// next is between half and all of the current bound, and not less than what the server asked for.
func (b *backoff) next(atLeast time.Duration) time.Duration {
	wait := jittered(b.bound, 0.5, 1)
	b.bound = min(b.bound*2, b.most)
	return max(wait, atLeast)
}

func jittered(span time.Duration, from, to float64) time.Duration {
	return time.Duration(float64(span) * (from + rand.Float64()*(to-from)))
}

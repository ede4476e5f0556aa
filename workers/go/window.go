package rota

import (
	"math"
	"sync"
	"time"
)

// RedriveDefault is how long after its deadline a dead job may be redriven, where nobody says otherwise.
const RedriveDefault = 14 * 24 * time.Hour

// Each type and window is worth one warning in the life of a process.
var warnedWindows sync.Map

type warnedWindow struct {
	jobType string
	window  time.Duration
}

// windowShortfallSeconds is by how much a target forgets a key too early: it is sent for the last time up to total and
// redrive after the first. Without a total, which is negative then, there is no last time. 0: early enough.
func windowShortfallSeconds(window, total, redrive time.Duration) float64 {
	if total < 0 {
		return math.Inf(1)
	}
	return max(0, total.Seconds()+redrive.Seconds()-window.Seconds())
}

func warnOfWindow(lease *Lease, window, redrive time.Duration) {
	total := time.Duration(-1)
	if lease.message.Deadline != nil {
		total = max(0, time.Until(lease.receivedAt.Add(lease.message.Deadline.AsDuration())))
	}
	short := windowShortfallSeconds(window, total, redrive)
	if short == 0 {
		return
	}
	if _, told := warnedWindows.LoadOrStore(warnedWindow{lease.Type(), window}, true); told {
		return
	}
	log := lease.session.log.With("type", lease.Type(), "window", window)
	if math.IsInf(short, 1) {
		log.Warn("the jobs have no total timeout, and their target forgets idempotency keys: an attempt after that is a " +
			"second effect; give them a total timeout")
		return
	}
	log.Warn("the target forgets idempotency keys before the last possible attempt, redrives included: an attempt after "+
		"that is a second effect; give the jobs a shorter total timeout", "short_by", time.Duration(short*float64(time.Second)).Round(time.Second))
}

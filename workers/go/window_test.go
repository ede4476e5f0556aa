package rota

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

func TestEffectHeaders(t *testing.T) {
	found := testLease(t).EffectHeaders()
	if len(found) != 2 || found.Get("Idempotency-Key") != "key" || found.Get("Rota-Fence") != "7" {
		t.Errorf("found %v", found)
	}
}

func TestHowMuchTooEarlyATargetForgetsKeys(t *testing.T) {
	for _, given := range []struct {
		window, total, redrive time.Duration
		short                  float64
	}{
		{24 * time.Hour, time.Hour, 0, 0},
		{24 * time.Hour, 24 * time.Hour, time.Second, 1},
		{time.Minute, 30 * time.Second, 31 * time.Second, 1},
		{time.Minute, -1, 0, math.Inf(1)},
	} {
		if found := windowShortfallSeconds(given.window, given.total, given.redrive); found != given.short {
			t.Errorf("%v: found %v", given, found)
		}
	}
}

func TestATargetThatForgetsTooEarlyIsWarnedOfOnce(t *testing.T) {
	var words bytes.Buffer
	log := slog.New(slog.NewTextHandler(&words, nil))
	told := func(deadline, redrive time.Duration) string {
		words.Reset()
		lease := testLease(t)
		lease.session.log = log
		if deadline > 0 {
			lease.message.Deadline = durationpb.New(deadline)
		}
		if found := lease.EffectHeadersFor(time.Hour, redrive); found.Get("Idempotency-Key") != "key" {
			t.Errorf("found %v", found)
		}
		return words.String()
	}
	warnedWindows.Clear()
	if found := told(30*time.Minute, 0); found != "" {
		t.Errorf("the window is long enough, found %s", found)
	}
	if found := told(2*time.Hour, 0); !strings.Contains(found, "level=WARN") ||
		!strings.Contains(found, "type=work window=1h0m0s short_by=1h0m0s") {
		t.Errorf("expected a warning of an hour, found %q", found)
	}
	if found := told(2*time.Hour, 0); found != "" {
		t.Errorf("expected one warning, found another: %s", found)
	}
	warnedWindows.Clear()
	if found := told(30*time.Minute, RedriveDefault); !strings.Contains(found, "short_by=335h30m0s") {
		t.Errorf("expected that redrives count, found %q", found)
	}
	warnedWindows.Clear()
	if found := told(0, 0); !strings.Contains(found, "no total timeout") {
		t.Errorf("expected a warning that there is no end, found %q", found)
	}
}

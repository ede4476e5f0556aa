package rota

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, given := range []struct {
		name, text, want string
		limit            int
	}{
		{"plain", "hello", "hello", 100},
		{"NUL", "a\x00b", "ab", 100},
		{"a lone surrogate", "a\xed\xa0\x80b", "a\uFFFDb", 100},
		{"exactly the limit", strings.Repeat("x", 100), strings.Repeat("x", 100), 100},
		{"cut with a mark", strings.Repeat("x", 101), strings.Repeat("x", 100-len(cutMark)) + cutMark, 100},
		{"cut without room for a mark", "abcdef", "abc", 3},
		{"nothing", "", "", 10},
	} {
		t.Run(given.name, func(t *testing.T) {
			if found := clean(given.text, given.limit); found != given.want {
				t.Errorf("expected %q, found %q", given.want, found)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add("é\x00\xed\xa0\x80", 5)
	f.Add(strings.Repeat("é", 60), 100)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 0 || limit > 1<<16 {
			t.Skip()
		}
		found := clean(text, limit)
		if len(found) > limit || !utf8.ValidString(found) || strings.ContainsRune(found, 0) {
			t.Errorf("clean(%q, %d) = %q", text, limit, found)
		}
	})
}

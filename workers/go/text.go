package rota

import (
	"strings"
	"unicode/utf8"
)

const cutMark = "… (cut)"

// clean makes text from anywhere fit for the wire: without NUL, with U+FFFD for what is not UTF-8, in at most limit
// bytes. A text that was cut ends with a mark, which counts.
func clean(text string, limit int) string {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
	}
	text = strings.ReplaceAll(text, "\x00", "")
	valid := strings.ToValidUTF8(text, "\uFFFD")
	if !cut && len(valid) <= limit {
		return valid
	}
	room := limit
	mark := ""
	if limit >= 4*len(cutMark) {
		mark = cutMark
		room -= len(mark)
	}
	if len(valid) > room {
		valid = valid[:room]
		for len(valid) > 0 {
			if last, size := utf8.DecodeLastRuneInString(valid); last != utf8.RuneError || size != 1 {
				break
			}
			valid = valid[:len(valid)-1]
		}
	}
	return valid + mark
}

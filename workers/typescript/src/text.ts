const CUT = "… (cut)";
const CUT_BYTES = Buffer.byteLength(CUT);
const NUL = "\u0000";

/**
 * Text from anywhere, fit for the wire: without NUL, with U+FFFD for lone surrogates, in at most `limit` bytes of UTF-8.
 * Never throws. A text that was cut ends with a mark, which counts.
 */
export function clean(text: string, limit: number): string {
  // A character takes a byte or more, so nothing beyond `limit` characters can survive; 10 MB are not walked.
  const whole = text.length <= limit;
  const kept = (whole ? text : text.slice(0, limit)).replaceAll(NUL, "");
  // Lone surrogates become U+FFFD here.
  const bytes = Buffer.from(kept, "utf8");
  if (whole && bytes.length <= limit) {
    return bytes.toString("utf8");
  }
  const mark = limit >= 4 * CUT_BYTES ? CUT : "";
  let end = Math.min(bytes.length, limit - Buffer.byteLength(mark));
  // Not in the middle of a character.
  while (end > 0 && end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) {
    end--;
  }
  return bytes.toString("utf8", 0, end) + mark;
}

package dev.rota;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;

/** Text that may come from anywhere, made fit for the wire. */
final class Text {
    private static final String CUT = "… (cut)";
    private static final int CUT_BYTES = CUT.getBytes(StandardCharsets.UTF_8).length;

    private Text() {}

    /**
     * The text without NUL, with U+FFFD for lone surrogates, in at most {@code limit} bytes of UTF-8. Never throws. A text
     * that was cut ends with a mark, which counts.
     */
    static String clean(String text, int limit) {
        if (text == null) {
            return "";
        }
        // A character takes a byte or more, so nothing beyond `limit` characters can survive; 10 MB are not walked.
        boolean whole = text.length() <= limit;
        String kept = (whole ? text : text.substring(0, limit)).replace("\0", "");
        ByteBuffer bytes = encoded(kept);
        if (whole && bytes.remaining() <= limit) {
            return StandardCharsets.UTF_8.decode(bytes).toString();
        }
        String mark = limit >= 4 * CUT_BYTES ? CUT : "";
        int end = Math.min(bytes.remaining(), limit - (mark.isEmpty() ? 0 : CUT_BYTES));
        // Not in the middle of a character.
        while (end > 0 && end < bytes.remaining() && (bytes.get(end) & 0xc0) == 0x80) {
            end--;
        }
        bytes.limit(end);
        return StandardCharsets.UTF_8.decode(bytes) + mark;
    }

    private static ByteBuffer encoded(String text) {
        try {
            return StandardCharsets.UTF_8
                    .newEncoder()
                    .onMalformedInput(CodingErrorAction.REPLACE)
                    .replaceWith("\ufffd".getBytes(StandardCharsets.UTF_8))
                    .encode(CharBuffer.wrap(text));
        } catch (java.nio.charset.CharacterCodingException error) {
            throw new AssertionError("replaced, never reported", error);
        }
    }
}

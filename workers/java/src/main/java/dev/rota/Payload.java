package dev.rota;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;

/** Bytes that Rota keeps and delivers exactly as sent, and a media type that it never reads. */
public record Payload(ByteString data, String contentType) {
    static final Payload EMPTY = new Payload(ByteString.EMPTY, "");
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();

    /**
     * A Payload as it is, bytes as they are, a CharSequence as UTF-8 text, null as nothing, anything else as JSON.
     *
     * @throws RuntimeException where JSON has no form for it
     */
    public static Payload of(Object value) {
        if (value == null) {
            return EMPTY;
        }
        if (value instanceof Payload payload) {
            return payload;
        }
        if (value instanceof byte[] bytes) {
            return new Payload(ByteString.copyFrom(bytes), "application/octet-stream");
        }
        if (value instanceof ByteString bytes) {
            return new Payload(bytes, "application/octet-stream");
        }
        if (value instanceof CharSequence text) {
            return new Payload(ByteString.copyFromUtf8(text.toString()), "text/plain; charset=utf-8");
        }
        return new Payload(ByteString.copyFromUtf8(JSON.toJson(value)), "application/json");
    }

    /** The data as UTF-8. */
    public String text() {
        return data.toString(StandardCharsets.UTF_8);
    }

    /** The data as JSON; null when there is none. Throws a JsonSyntaxException. */
    public <T> T json(Class<T> type) {
        return data.isEmpty() ? null : JSON.fromJson(text(), type);
    }

    static Payload from(dev.rota.v1.Payload message) {
        return new Payload(message.getData(), message.getContentType());
    }

    dev.rota.v1.Payload message() {
        return dev.rota.v1.Payload.newBuilder().setData(data).setContentType(contentType).build();
    }
}

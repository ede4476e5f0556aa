package dev.rota;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A refusal or failure of Rota's. Decide by {@link #code()} or {@link #reason()}, one of the catalogue in
 * rota/v1/errors.proto; messages are for people and may change.
 */
public final class RotaException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private static final String DOMAIN = "rota";

    /** One field that was refused, by its path in the request, and why. */
    public record Violation(String field, String description) {}

    private final Status.Code code;
    private final String reason;
    private final transient Map<String, String> details;
    private final Duration retryAfter;
    private final transient List<Violation> violations;

    RotaException(
            Status.Code code,
            String reason,
            String message,
            Map<String, String> details,
            Duration retryAfter,
            List<Violation> violations) {
        super(words(code, reason, message, violations));
        this.code = code;
        this.reason = reason;
        this.details = Map.copyOf(details);
        this.retryAfter = retryAfter;
        this.violations = List.copyOf(violations);
    }

    /** gRPC's status code. */
    public Status.Code code() {
        return code;
    }

    /** Stable, and empty when nobody gave one. */
    public String reason() {
        return reason;
    }

    /** Texts by name, for example the current fence. */
    public Map<String, String> details() {
        return details;
    }

    /** What the server asks for; zero when it does not. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** The fields that were refused. */
    public List<Violation> violations() {
        return violations;
    }

    /** The job has a newer grant. Final: drop the work. */
    public boolean isStaleFence() {
        return reason.equals("STALE_FENCE");
    }

    /** Whether the same call may succeed a moment later. */
    public boolean isTransient() {
        return switch (code) {
            case UNAVAILABLE, DEADLINE_EXCEEDED, UNKNOWN, INTERNAL, CANCELLED, DATA_LOSS -> true;
            case RESOURCE_EXHAUSTED -> !reason.equals("QUOTA_EXCEEDED");
            case ABORTED -> reason.equals("SHARD_MOVED");
            default -> false;
        };
    }

    static RotaException of(Throwable error) {
        if (error instanceof RotaException known) {
            return known;
        }
        if (error instanceof StatusRuntimeException refused) {
            com.google.rpc.Status detailed = StatusProto.fromThrowable(refused);
            if (detailed != null && detailed.getDetailsCount() > 0) {
                return of(detailed);
            }
            Status status = refused.getStatus();
            String words = status.getDescription() == null ? status.getCode().name() : status.getDescription();
            return new RotaException(status.getCode(), "", words, Map.of(), Duration.ZERO, List.of());
        }
        return new RotaException(Status.Code.UNKNOWN, "", String.valueOf(error), Map.of(), Duration.ZERO, List.of());
    }

    static RotaException of(com.google.rpc.Status status) {
        String reason = "";
        Map<String, String> details = new HashMap<>();
        Duration retryAfter = Duration.ZERO;
        List<Violation> violations = new ArrayList<>();
        for (Any packed : status.getDetailsList()) {
            try {
                if (packed.is(ErrorInfo.class)) {
                    ErrorInfo info = packed.unpack(ErrorInfo.class);
                    if (info.getDomain().equals(DOMAIN)) {
                        reason = info.getReason();
                        details.putAll(info.getMetadataMap());
                    }
                } else if (packed.is(RetryInfo.class)) {
                    retryAfter = Spans.of(packed.unpack(RetryInfo.class).getRetryDelay());
                } else if (packed.is(BadRequest.class)) {
                    for (BadRequest.FieldViolation each : packed.unpack(BadRequest.class).getFieldViolationsList()) {
                        violations.add(new Violation(each.getField(), each.getDescription()));
                    }
                }
            } catch (InvalidProtocolBufferException unreadable) {
                // Details that cannot be read say nothing.
                continue;
            }
        }
        Status.Code code = Status.fromCodeValue(status.getCode()).getCode();
        return new RotaException(code, reason, status.getMessage(), details, retryAfter, violations);
    }

    private static String words(Status.Code code, String reason, String message, List<Violation> violations) {
        StringBuilder words = new StringBuilder(reason.isEmpty() ? code.name() : reason).append(": ").append(message);
        violations.forEach(each -> words.append("\n  ").append(each.field()).append(": ").append(each.description()));
        return words.toString();
    }
}

package dev.rota;

import dev.rota.v1.CreateJobRequest;
import dev.rota.v1.Dedupe;
import dev.rota.v1.RetryPolicy;
import dev.rota.v1.Timeouts;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** A job to create. Due at its run time, after its delay, or at once; what is left out is the server's default. */
public final class NewJob {
    private final CreateJobRequest request;

    private NewJob(CreateJobRequest request) {
        this.request = request;
    }

    /** A job for handlers of a type. */
    public static Builder of(String type) {
        return new Builder(type);
    }

    /** A job with a payload: see {@link Payload#of}. */
    public static NewJob of(String type, Object payload) {
        return of(type).payload(payload).build();
    }

    CreateJobRequest request() {
        return request;
    }

    /** Makes one. */
    public static final class Builder {
        private final CreateJobRequest.Builder request = CreateJobRequest.newBuilder();

        private Builder(String type) {
            if (type.isEmpty()) {
                throw new IllegalArgumentException("type: expected the name of a handler, found none");
            }
            request.getJobBuilder().setType(type);
        }

        /** What the handler gets: see {@link Payload#of}. */
        public Builder payload(Object value) {
            request.getJobBuilder().setPayload(Payload.of(value).message());
            return this;
        }

        public Builder queue(String queue) {
            request.getJobBuilder().setQueue(queue);
            return this;
        }

        /** 0 to 9, 9 first. */
        public Builder priority(int priority) {
            request.getJobBuilder().setPriority(priority);
            return this;
        }

        public Builder runTime(Instant runTime) {
            request.getJobBuilder().setRunTime(Spans.message(runTime));
            return this;
        }

        public Builder delay(Duration delay) {
            request.setDelay(Spans.message(delay));
            return this;
        }

        /** What follows a failure; by default 5 attempts, 1 s doubling up to 1 h. */
        public Builder retry(RetryPolicy policy) {
            request.getJobBuilder().setRetryPolicy(policy);
            return this;
        }

        public Builder maxAttempts(int attempts) {
            request.getJobBuilder().getRetryPolicyBuilder().setMaxAttempts(attempts);
            return this;
        }

        /** Bounds of its life; by default a run takes an hour at most, and the others have none. */
        public Builder timeouts(Timeouts timeouts) {
            request.getJobBuilder().setTimeouts(timeouts);
            return this;
        }

        public Builder headers(Map<String, String> headers) {
            request.getJobBuilder().putAllHeaders(headers);
            return this;
        }

        public Builder labels(Map<String, String> labels) {
            request.getJobBuilder().putAllLabels(labels);
            return this;
        }

        public Builder effectKey(String key) {
            request.getJobBuilder().setEffectKey(key);
            return this;
        }

        public Builder concurrencyKey(String key) {
            request.getJobBuilder().setConcurrencyKey(key);
            return this;
        }

        /** At most one job for a key. */
        public Builder dedupe(Dedupe dedupe) {
            request.setDedupe(dedupe);
            return this;
        }

        /** Throws IllegalArgumentException when it has both a run time and a delay. */
        public NewJob build() {
            if (request.hasDelay() && request.getJob().hasRunTime()) {
                throw new IllegalArgumentException("expected runTime or delay, found both; give one");
            }
            return new NewJob(request.build());
        }
    }
}

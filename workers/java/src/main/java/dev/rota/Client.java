package dev.rota;

import dev.rota.v1.Attempt;
import dev.rota.v1.BatchCreateJobsRequest;
import dev.rota.v1.CancelJobRequest;
import dev.rota.v1.CancelMode;
import dev.rota.v1.CreateJobRequest;
import dev.rota.v1.GetJobRequest;
import dev.rota.v1.Job;
import dev.rota.v1.JobServiceGrpc;
import dev.rota.v1.JobState;
import dev.rota.v1.ListAttemptsRequest;
import dev.rota.v1.ListAttemptsResponse;
import dev.rota.v1.ListJobsRequest;
import dev.rota.v1.ListJobsResponse;
import dev.rota.v1.WaitJobRequest;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.MetadataUtils;
import io.opentelemetry.api.GlobalOpenTelemetry;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Creates, reads and steers jobs, which are the contract's own messages. Safe for use by many threads; it connects at the
 * first call. UNAVAILABLE is retried by gRPC, up to four attempts; creations carry a request_id, so that a repetition creates
 * nothing twice. Every method throws RotaException.
 */
public final class Client implements AutoCloseable {
    private static final Set<JobState> TERMINAL = EnumSet.of(
            JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_DEAD, JobState.JOB_STATE_CANCELLED, JobState.JOB_STATE_EXPIRED);

    private final ManagedChannel channel;
    private final Telemetry telemetry = new Telemetry(GlobalOpenTelemetry.get());

    private Client(Endpoint endpoint) {
        channel = endpoint.open();
    }

    /** By the environment: ROTA_ADDRESS, ROTA_API_KEY, ROTA_TLS and its kin. */
    public static Client create() {
        return create(null, null);
    }

    /** As {@link #create()}, with address and key given; null: from the environment. */
    public static Client create(String address, String apiKey) {
        return new Client(Endpoint.resolve(address, apiKey, System.getenv()));
    }

    /** Closes the connection. */
    @Override
    public void close() {
        channel.shutdownNow();
    }

    /** The connection, for the generated stubs of what this client does not wrap. */
    public Channel channel() {
        return channel;
    }

    /** Creates a job, durable when this returns. */
    public Job createJob(NewJob job) {
        return createJob(job, UUID.randomUUID().toString());
    }

    /** As {@link #createJob(NewJob)}; under the same request_id nothing is created twice within 7 days. */
    public Job createJob(NewJob job, String requestId) {
        CreateJobRequest request = job.request().toBuilder().setRequestId(requestId).build();
        return telemetry.creating(
                request.getJob().getType(), 1, context -> call(context, stub -> stub.createJob(request).getJob()));
    }

    /** Creates up to 1,000 jobs in one transaction: all or none. */
    public List<Job> createJobs(List<NewJob> jobs) {
        if (jobs.isEmpty() || jobs.size() > Limits.BATCH_JOBS_MAX) {
            throw new IllegalArgumentException("expected 1 to " + Limits.BATCH_JOBS_MAX + " jobs, found " + jobs.size()
                    + "; a batch is atomic, so split it yourself");
        }
        BatchCreateJobsRequest.Builder request = BatchCreateJobsRequest.newBuilder().setRequestId(UUID.randomUUID().toString());
        jobs.forEach(job -> request.addRequests(job.request()));
        return telemetry.creating(
                jobs.get(0).request().getJob().getType(),
                jobs.size(),
                context -> call(context, stub -> stub.batchCreateJobs(request.build()).getJobsList()));
    }

    /** Reads one job, live or finished, by its id or name. */
    public Job getJob(String job) {
        GetJobRequest request = GetJobRequest.newBuilder().setName(name(job)).build();
        return call(stub -> stub.getJob(request).getJob());
    }

    /** Cancels a job; the mode says what that does to one that runs. Repeating it is safe. */
    public Job cancelJob(String job, CancelMode mode, String reason) {
        CancelJobRequest request =
                CancelJobRequest.newBuilder().setName(name(job)).setMode(mode).setReason(reason).build();
        return call(stub -> stub.cancelJob(request).getJob());
    }

    /** Waits until a job is terminal, at most so long, and answers with the job as it is then. */
    public Job waitJob(String job, Duration limit) {
        long until = System.nanoTime() + limit.toNanos();
        while (true) {
            Duration left = Duration.ofNanos(Math.max(0, until - System.nanoTime()));
            Duration wait = Spans.min(left, Limits.WAIT_JOB_MAX);
            WaitJobRequest request =
                    WaitJobRequest.newBuilder().setName(name(job)).setTimeout(Spans.message(wait)).build();
            Job found = call(stub -> stub.waitJob(request).getJob());
            if (TERMINAL.contains(found.getState()) || until - System.nanoTime() <= 0) {
                return found;
            }
        }
    }

    /** A page of jobs, newest first; the request says which. */
    public ListJobsResponse listJobs(ListJobsRequest request) {
        return call(stub -> stub.listJobs(request));
    }

    /** The grants of a job. */
    public List<Attempt> listAttempts(String job) {
        List<Attempt> found = new ArrayList<>();
        String token = "";
        do {
            ListAttemptsRequest request = ListAttemptsRequest.newBuilder()
                    .setParent(name(job))
                    .setPageSize(Limits.BATCH_JOBS_MAX)
                    .setPageToken(token)
                    .build();
            ListAttemptsResponse page = call(stub -> stub.listAttempts(request));
            found.addAll(page.getAttemptsList());
            token = page.getNextPageToken();
        } while (!token.isEmpty());
        return found;
    }

    private <T> T call(Function<JobServiceGrpc.JobServiceBlockingStub, T> call) {
        return call(Map.of(), call);
    }

    private <T> T call(Map<String, String> context, Function<JobServiceGrpc.JobServiceBlockingStub, T> call) {
        JobServiceGrpc.JobServiceBlockingStub stub = JobServiceGrpc.newBlockingStub(channel)
                .withDeadlineAfter(Limits.CALL_TIMEOUT.toNanos(), TimeUnit.NANOSECONDS);
        if (!context.isEmpty()) {
            Metadata metadata = new Metadata();
            context.forEach((key, value) -> metadata.put(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER), value));
            stub = stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(metadata));
        }
        try {
            return call.apply(stub);
        } catch (RuntimeException error) {
            RotaException failure = RotaException.of(error);
            if (failure.code() == Status.Code.UNAVAILABLE) {
                // gRPC would wait for up to two minutes before it looks again, and refuse what is called meanwhile.
                channel.resetConnectBackoff();
            }
            throw failure;
        }
    }

    private static String name(String job) {
        if (job.isEmpty()) {
            throw new IllegalArgumentException("expected a job's name or id, found an empty text");
        }
        return job.startsWith("jobs/") ? job : "jobs/" + job;
    }
}

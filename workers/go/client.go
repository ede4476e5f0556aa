package rota

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	rotav1 "github.com/rota-scheduler/rota/workers/go/gen/rota/v1"
)

// ClientConfig says which server to talk to. Zero values are defaults.
type ClientConfig struct {
	Endpoint Endpoint
	// Timeout of each call whose context has no deadline; default 30 s.
	Timeout time.Duration
	// TracerProvider; default: that of the OpenTelemetry API, which makes nothing until an application sets one.
	TracerProvider trace.TracerProvider
}

// Client creates, reads and steers jobs. Safe for use by many goroutines; it connects at the first call. UNAVAILABLE is
// retried by gRPC, up to four attempts; creations carry a request_id, so that a repetition creates nothing twice. Errors
// are of the type [*Error].
type Client struct {
	conn    *grpc.ClientConn
	jobs    rotav1.JobServiceClient
	timeout time.Duration
	tracer  trace.Tracer
}

// NewClient opens no connection by itself.
func NewClient(config ClientConfig) (*Client, error) {
	target, err := config.Endpoint.resolve()
	if err != nil {
		return nil, err
	}
	conn, err := target.dial()
	if err != nil {
		return nil, fmt.Errorf("rota: %w", err)
	}
	if config.TracerProvider == nil {
		config.TracerProvider = otel.GetTracerProvider()
	}
	return &Client{
		conn: conn, jobs: rotav1.NewJobServiceClient(conn), timeout: orDefault(config.Timeout, callTimeout),
		tracer: tracerOf(config.TracerProvider),
	}, nil
}

// Close cancels calls under way and closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Conn is the connection, for the generated stubs of what this client does not wrap (gen/rota/v1, gen/rota/admin/v1).
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// CreateJob creates a job, durable when this returns. Under the same RequestID of the option nothing is created twice.
func (c *Client) CreateJob(ctx context.Context, job NewJob, options ...CreateOption) (*Job, error) {
	request, err := job.request()
	if err != nil {
		return nil, err
	}
	request.RequestId = requestID(options)
	ctx, span := c.creating(ctx, job.Type, 1)
	answer, err := call(ctx, c.limit(ctx), c.jobs.CreateJob, request)
	if ended(span, err) != nil {
		return nil, err
	}
	made := jobOf(answer.GetJob())
	made.Existing = answer.GetExisting()
	return made, nil
}

// CreateJobs creates up to 1,000 jobs in one transaction: all or none.
func (c *Client) CreateJobs(ctx context.Context, jobs []NewJob, options ...CreateOption) ([]*Job, error) {
	if err := checkBatch(len(jobs)); err != nil {
		return nil, err
	}
	batch := &rotav1.BatchCreateJobsRequest{RequestId: requestID(options)}
	for at, job := range jobs {
		request, err := job.request()
		if err != nil {
			return nil, fmt.Errorf("jobs[%d]: %w", at, err)
		}
		batch.Requests = append(batch.Requests, request)
	}
	ctx, span := c.creating(ctx, jobs[0].Type, len(jobs))
	answer, err := call(ctx, c.limit(ctx), c.jobs.BatchCreateJobs, batch)
	if ended(span, err) != nil {
		return nil, err
	}
	made := make([]*Job, len(answer.GetJobs()))
	for at, job := range answer.GetJobs() {
		made[at] = jobOf(job)
	}
	return made, nil
}

// CreateOption changes how jobs are created.
type CreateOption func(*createOptions)

type createOptions struct{ requestID string }

// RequestID names one logical call, at most 128 bytes: a repetition within 7 days gets the first answer again.
func RequestID(id string) CreateOption { return func(o *createOptions) { o.requestID = id } }

func requestID(options []CreateOption) string {
	found := createOptions{requestID: uuid.NewString()}
	for _, option := range options {
		option(&found)
	}
	return found.requestID
}

// GetJob reads one job, live or finished, by its id or name.
func (c *Client) GetJob(ctx context.Context, job string) (*Job, error) {
	name, err := jobName(job)
	if err != nil {
		return nil, err
	}
	answer, err := call(ctx, c.limit(ctx), c.jobs.GetJob, &rotav1.GetJobRequest{Name: name})
	return jobOrError(answer.GetJob(), err)
}

// CancelJob cancels a job; the mode says what that does to one that runs. Repeating it is safe.
func (c *Client) CancelJob(ctx context.Context, job string, mode rotav1.CancelMode, reason string) (*Job, error) {
	name, err := jobName(job)
	if err != nil {
		return nil, err
	}
	request := &rotav1.CancelJobRequest{Name: name, Mode: mode, Reason: reason}
	answer, err := call(ctx, c.limit(ctx), c.jobs.CancelJob, request)
	return jobOrError(answer.GetJob(), err)
}

// WaitJob waits until a job is terminal, for as long as the context allows.
func (c *Client) WaitJob(ctx context.Context, job string) (*Job, error) {
	name, err := jobName(job)
	if err != nil {
		return nil, err
	}
	request := &rotav1.WaitJobRequest{Name: name, Timeout: durationpb.New(waitJobMax)}
	for {
		answer, err := call(ctx, waitJobMax+c.timeout, c.jobs.WaitJob, request)
		if err != nil {
			return nil, err
		}
		if found := jobOf(answer.GetJob()); found.Terminal() {
			return found, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// JobFilter says which jobs to list: those that meet all that is set.
type JobFilter struct {
	Queue  string
	Type   string
	State  rotav1.JobState
	Labels map[string]string
}

// ListJobs lists jobs, newest first, page by page as they are asked for.
func (c *Client) ListJobs(ctx context.Context, filter JobFilter) iter.Seq2[*Job, error] {
	return func(yield func(*Job, error) bool) {
		request := &rotav1.ListJobsRequest{
			PageSize: batchJobsMax, Queue: filter.Queue, Type: filter.Type, State: filter.State, Labels: filter.Labels,
		}
		for {
			answer, err := call(ctx, c.limit(ctx), c.jobs.ListJobs, request)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, job := range answer.Jobs {
				if !yield(jobOf(job), nil) {
					return
				}
			}
			if request.PageToken = answer.NextPageToken; request.PageToken == "" {
				return
			}
		}
	}
}

// ListAttempts lists the grants of a job.
func (c *Client) ListAttempts(ctx context.Context, job string) ([]*Attempt, error) {
	name, err := jobName(job)
	if err != nil {
		return nil, err
	}
	var found []*Attempt
	request := &rotav1.ListAttemptsRequest{Parent: name, PageSize: batchJobsMax}
	for {
		answer, err := call(ctx, c.limit(ctx), c.jobs.ListAttempts, request)
		if err != nil {
			return nil, err
		}
		for _, attempt := range answer.Attempts {
			found = append(found, attemptOf(attempt))
		}
		if request.PageToken = answer.NextPageToken; request.PageToken == "" {
			return found, nil
		}
	}
}

// limit is the client's timeout where the context has no deadline of its own.
func (c *Client) limit(ctx context.Context) time.Duration {
	if deadline, set := ctx.Deadline(); set {
		return time.Until(deadline)
	}
	return c.timeout
}

// creating is a producer span around a creation, whose context travels with the call.
func (c *Client) creating(ctx context.Context, jobType string, count int) (context.Context, trace.Span) {
	ctx, span := c.tracer.Start(ctx, "rota.create "+jobType, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			attribute.String("messaging.system", "rota"),
			attribute.String("messaging.operation.type", "send"),
			attribute.Int("messaging.batch.message_count", count),
		))
	return handedOn(ctx), span
}

func ended(span trace.Span, err error) error {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(otelcodes.Error, codeOf(err).String())
	}
	span.End()
	return err
}

func jobOrError(job *rotav1.Job, err error) (*Job, error) {
	if err != nil {
		return nil, err
	}
	return jobOf(job), nil
}

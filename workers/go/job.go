package rota

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rotav1 "github.com/rota-scheduler/rota/workers/go/gen/rota/v1"
)

// NewJob is a job to create. Due at RunTime, after Delay, or at once; what is left empty is the server's default.
type NewJob struct {
	Type string
	// Payload is what the handler gets: see PayloadOf.
	Payload any
	Queue   string
	// Priority is 0 to 9, 9 first.
	Priority       *int
	RunTime        time.Time
	Delay          time.Duration
	Retry          RetryPolicy
	Timeouts       Timeouts
	Headers        map[string]string
	Labels         map[string]string
	EffectKey      string
	ConcurrencyKey string
	Dedupe         Dedupe
}

// RetryPolicy is what follows a failure; what is zero is the server's default (5 attempts, 1 s doubling up to 1 h).
type RetryPolicy struct {
	MaxAttempts       int
	InitialBackoff    time.Duration
	MaxBackoff        time.Duration
	Multiplier        float64
	NonRetryableTypes []string
}

// Timeouts bound a job's life. Zero: no bound, except Run, which is 1 h by default.
type Timeouts struct {
	StartBy time.Duration
	Run     time.Duration
	Total   time.Duration
}

// Dedupe asks for at most one job for a key, for Window after its creation or, without one, until it is terminal.
type Dedupe struct {
	Key        string
	Scope      rotav1.DedupeScope
	Window     time.Duration
	OnConflict rotav1.DedupeConflict
}

// Job is one piece of work as it stood when the server answered. In lists without payload and result.
type Job struct {
	// Name is jobs/{id}.
	Name            string
	Type            string
	Queue           string
	State           rotav1.JobState
	Priority        int
	Payload         Payload
	Headers         map[string]string
	Labels          map[string]string
	EffectKey       string
	ConcurrencyKey  string
	Attempt         int
	AttemptsCounted int
	Generation      int
	Result          Payload
	LastFailure     *rotav1.Failure
	Session         string
	Schedule        string
	Reason          string
	Traceparent     string
	DueTime         time.Time
	CreateTime      time.Time
	LeaseTime       time.Time
	FinishTime      time.Time
	NominalTime     time.Time
	// Existing: on creation, request_id or dedupe led to a job that was there already.
	Existing bool
	// CompletedDespiteCancel: its own success came before the cancellation.
	CompletedDespiteCancel bool
}

// ID is the name without its collection.
func (j *Job) ID() string { return strings.TrimPrefix(j.Name, "jobs/") }

// Terminal says whether the job has ended.
func (j *Job) Terminal() bool {
	switch j.State {
	case rotav1.JobState_JOB_STATE_SUCCEEDED, rotav1.JobState_JOB_STATE_DEAD, rotav1.JobState_JOB_STATE_CANCELLED,
		rotav1.JobState_JOB_STATE_EXPIRED:
		return true
	}
	return false
}

// Attempt is one grant of a job to a session.
type Attempt struct {
	Name        string
	Number      int
	Fence       int64
	Session     string
	Worker      string
	Outcome     rotav1.AttemptOutcome
	Failure     *rotav1.Failure
	EffectState rotav1.EffectState
	LeaseTime   time.Time
	EndTime     time.Time
}

func (n NewJob) request() (*rotav1.CreateJobRequest, error) {
	if n.Type == "" {
		return nil, errors.New("rota: NewJob.Type: expected the name of a handler, found none")
	}
	if !n.RunTime.IsZero() && n.Delay != 0 {
		return nil, errors.New("rota: NewJob: expected RunTime or Delay, found both; give one")
	}
	payload, err := PayloadOf(n.Payload)
	if err != nil {
		return nil, err
	}
	job := &rotav1.Job{
		Type: n.Type, Queue: n.Queue, Payload: payload.message(), Headers: n.Headers, Labels: n.Labels,
		EffectKey: n.EffectKey, ConcurrencyKey: n.ConcurrencyKey,
	}
	if n.Priority != nil {
		job.Priority = proto.Int32(int32(*n.Priority))
	}
	if !n.RunTime.IsZero() {
		job.RunTime = timestamppb.New(n.RunTime)
	}
	job.RetryPolicy = n.Retry.message()
	if n.Timeouts != (Timeouts{}) {
		job.Timeouts = &rotav1.Timeouts{StartBy: span(n.Timeouts.StartBy), Run: span(n.Timeouts.Run), Total: span(n.Timeouts.Total)}
	}
	made := &rotav1.CreateJobRequest{Job: job, Delay: span(n.Delay)}
	if n.Dedupe.Key != "" {
		made.Dedupe = &rotav1.Dedupe{
			Key: n.Dedupe.Key, Scope: n.Dedupe.Scope, Window: span(n.Dedupe.Window), OnConflict: n.Dedupe.OnConflict,
		}
	}
	return made, nil
}

func (r RetryPolicy) message() *rotav1.RetryPolicy {
	if r.MaxAttempts == 0 && r.InitialBackoff == 0 && r.MaxBackoff == 0 && r.Multiplier == 0 && len(r.NonRetryableTypes) == 0 {
		return nil
	}
	made := &rotav1.RetryPolicy{
		InitialBackoff: span(r.InitialBackoff), MaxBackoff: span(r.MaxBackoff), NonRetryableTypes: r.NonRetryableTypes,
	}
	if r.MaxAttempts != 0 {
		made.MaxAttempts = proto.Int32(int32(r.MaxAttempts))
	}
	if r.Multiplier != 0 {
		made.Multiplier = proto.Float64(r.Multiplier)
	}
	return made
}

func jobOf(message *rotav1.Job) *Job {
	return &Job{
		Name: message.GetName(), Type: message.GetType(), Queue: message.GetQueue(), State: message.GetState(),
		Priority: int(message.GetPriority()), Payload: payloadOf(message.GetPayload()), Headers: message.GetHeaders(),
		Labels: message.GetLabels(), EffectKey: message.GetEffectKey(), ConcurrencyKey: message.GetConcurrencyKey(),
		Attempt: int(message.GetAttempt()), AttemptsCounted: int(message.GetAttemptsCounted()),
		Generation: int(message.GetGeneration()), Result: payloadOf(message.GetResult()),
		LastFailure: message.GetLastFailure(), Session: message.GetSession(), Schedule: message.GetSchedule(),
		Reason: message.GetReason(), Traceparent: message.GetTraceparent(), DueTime: instant(message.GetDueTime()),
		CreateTime: instant(message.GetCreateTime()), LeaseTime: instant(message.GetLeaseTime()),
		FinishTime: instant(message.GetFinishTime()), NominalTime: instant(message.GetNominalTime()),
		CompletedDespiteCancel: message.GetCompletedDespiteCancel(),
	}
}

func attemptOf(message *rotav1.Attempt) *Attempt {
	return &Attempt{
		Name: message.GetName(), Number: int(message.GetNumber()), Fence: message.GetFence(),
		Session: message.GetSession(), Worker: message.GetWorker(), Outcome: message.GetOutcome(),
		Failure: message.GetFailure(), EffectState: message.GetEffectState(),
		LeaseTime: instant(message.GetLeaseTime()), EndTime: instant(message.GetEndTime()),
	}
}

// jobName is jobs/{id}, from either form.
func jobName(nameOrID string) (string, error) {
	if nameOrID == "" {
		return "", errors.New("rota: expected a job's name or id, found an empty text")
	}
	if strings.HasPrefix(nameOrID, "jobs/") {
		return nameOrID, nil
	}
	return "jobs/" + nameOrID, nil
}

func checkBatch(count int) error {
	if count < 1 || count > batchJobsMax {
		return fmt.Errorf("rota: expected 1 to %d jobs, found %d; a batch is atomic, so split it yourself", batchJobsMax, count)
	}
	return nil
}

// span is unset for zero.
func span(given time.Duration) *durationpb.Duration {
	if given == 0 {
		return nil
	}
	return durationpb.New(given)
}

func instant(given *timestamppb.Timestamp) time.Time {
	if given == nil {
		return time.Time{}
	}
	return given.AsTime()
}

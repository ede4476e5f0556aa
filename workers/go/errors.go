package rota

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const errorDomain = "rota"

// Error is a refusal or failure of Rota's. Decide by Code or Reason, one of the catalogue in rota/v1/errors.proto, or
// with errors.Is and the errors below; messages are for people and may change.
type Error struct {
	Code codes.Code
	// Reason is stable, and empty when nobody gave one.
	Reason  string
	Message string
	// Details are texts by name, for example the current fence.
	Details map[string]string
	// RetryAfter is what the server asks for; zero when it does not.
	RetryAfter time.Duration
	// Violations names the fields that were refused.
	Violations []Violation
}

// Violation is one field that was refused, by its path in the request, and why.
type Violation struct {
	Field       string
	Description string
}

func (e *Error) Error() string {
	var words strings.Builder
	name := e.Reason
	if name == "" {
		name = e.Code.String()
	}
	fmt.Fprintf(&words, "rota: %s: %s", name, e.Message)
	for _, violation := range e.Violations {
		fmt.Fprintf(&words, "\n  %s: %s", violation.Field, violation.Description)
	}
	return words.String()
}

// Is tells errors of the same reason, or, where the target has none, of the same code.
func (e *Error) Is(target error) bool {
	var other *Error
	if !errors.As(target, &other) {
		return false
	}
	if other.Reason != "" {
		return e.Reason == other.Reason
	}
	return e.Code == other.Code
}

// What callers ask for most, for errors.Is.
var (
	ErrInvalidArgument = &Error{Code: codes.InvalidArgument}
	ErrNotFound        = &Error{Code: codes.NotFound}
	ErrAlreadyExists   = &Error{Code: codes.AlreadyExists}
	ErrPrecondition    = &Error{Code: codes.FailedPrecondition}
	ErrUnauthenticated = &Error{Code: codes.Unauthenticated}
	ErrPermission      = &Error{Code: codes.PermissionDenied}
	ErrUnavailable     = &Error{Code: codes.Unavailable}
	// The session expired, was closed or never was; its leases are lost.
	ErrSessionGone = &Error{Code: codes.NotFound, Reason: "SESSION_GONE"}
	// A newer grant of the job exists. Final: drop the work.
	ErrStaleFence = &Error{Code: codes.Aborted, Reason: "STALE_FENCE"}
	// This fence has another outcome already. Final.
	ErrOutcomeConflict = &Error{Code: codes.Aborted, Reason: "OUTCOME_CONFLICT"}
)

// fromRPC makes an Error of what a call of gRPC's returned; nil stays nil.
func fromRPC(err error) error {
	if err == nil {
		return nil
	}
	found, ok := status.FromError(err)
	if !ok {
		return err
	}
	return fromStatus(found.Proto())
}

func fromStatus(found *spb.Status) *Error {
	made := &Error{Code: codes.Code(found.GetCode()), Message: found.GetMessage()}
	for _, packed := range status.FromProto(found).Details() {
		switch detail := packed.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == errorDomain {
				made.Reason, made.Details = detail.Reason, detail.Metadata
			}
		case *errdetails.RetryInfo:
			made.RetryAfter = detail.RetryDelay.AsDuration()
		case *errdetails.BadRequest:
			for _, violation := range detail.FieldViolations {
				made.Violations = append(made.Violations, Violation{violation.Field, violation.Description})
			}
		}
	}
	return made
}

// codeOf is codes.Unknown for what is not an Error.
func codeOf(err error) codes.Code {
	var found *Error
	if errors.As(err, &found) {
		return found.Code
	}
	return codes.Unknown
}

func retryAfterOf(err error) time.Duration {
	var found *Error
	if errors.As(err, &found) {
		return found.RetryAfter
	}
	return 0
}

// transient says whether the same call may succeed a moment later.
func transient(err error) bool {
	var found *Error
	if !errors.As(err, &found) {
		return true
	}
	switch found.Code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Unknown, codes.Internal, codes.Canceled, codes.DataLoss:
		return true
	case codes.ResourceExhausted:
		return found.Reason != "QUOTA_EXCEEDED"
	case codes.Aborted:
		return found.Reason == "SHARD_MOVED"
	}
	return false
}

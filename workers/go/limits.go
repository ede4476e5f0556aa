package rota

import "time"

// Every limit of the SDK, in one place. The first ones are the contract's.
const (
	resultBytesMax         = 64 << 10
	failureTypeBytesMax    = 256
	failureMessageBytesMax = 8 << 10
	failureStackBytesMax   = 32 << 10
	noteBytesMax           = 1 << 10
	reasonBytesMax         = 1 << 10
	identityBytesMax       = 128
	receiptBytesMax        = 1 << 10
	receiptsMax            = 16
	spawnedJobsMax         = 100
	batchJobsMax           = 1_000
	queuesMax              = 64
	typesMax               = 512
	slotsMax               = 10_000
	leaseJobsMax           = 1_000
	resultsPerCallMax      = 500
	retryAfterMax          = time.Hour
	waitJobMax             = 10 * time.Second

	// The server receives at most 4 MiB; the rest is room for framing and for the fields around the data.
	sendBytesMax    = 3_670_016
	receiveBytesMax = 16 << 20
	// A lone result and its spawned jobs must fit into one request.
	resultCallBytesMax = sendBytesMax - 64<<10

	keepalivePing    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
	callTimeout      = 30 * time.Second
	connectTimeout   = 5 * time.Second
	// A new connection at most this often, however many calls find the old one dead.
	renewInterval    = 2 * time.Second
	renewIntervalMax = 30 * time.Second

	// What stands in for a span that the server leaves out.
	leaseTTL     = 15 * time.Second
	deliveryTTL  = 5 * time.Second
	beatInterval = 5 * time.Second

	leaseWait        = 10 * time.Second
	leaseAnswerGrace = 3 * time.Second
	// A small poll costs as much as a large one: this long it is worth waiting for more free slots.
	slotLinger  = 5 * time.Millisecond
	slowDown    = time.Second
	slowDownFor = 5 * time.Second

	outcomeLinger      = 5 * time.Millisecond
	completeTimeout    = 10 * time.Second
	beatNotesMax       = 500
	directivesKept     = 4_096
	beatSpacing        = 10 * time.Millisecond
	streamBackoffFirst = 100 * time.Millisecond
	streamBackoffMax   = 30 * time.Second
	backoffFirst       = 50 * time.Millisecond
	backoffMax         = 5 * time.Second
	// Between tries to reach a coordinator that is away.
	connectBackoffFirst = 100 * time.Millisecond
	connectBackoffMax   = time.Second

	drainTimeout    = 30 * time.Second
	unwindTimeout   = time.Second
	closeTimeout    = 3 * time.Second
	parkedPollGrace = time.Second
	flushTimeout    = 10 * time.Second
	// Each phase of leaving when the worker is told to leave at once.
	atOnce = 500 * time.Millisecond
	// A handler that was stopped at its run timeout may clean up this long before its failure is reported.
	timeoutReportGrace = time.Second
	// How long a job of a type without a handler stays away from this worker.
	noHandlerDelay = 5 * time.Second
)

-- Jobs in your own transaction: the outbox of Rota, version 1, for PostgreSQL 13 or newer. Safe to run again.
-- The owner of the schema runs it. Whoever may enqueue needs USAGE on the schema and EXECUTE on rota_enqueue alone.

create table if not exists @schema@.rota_outbox (
    seq           bigint generated always as identity primary key,
    id            uuid not null,
    request_id    text,
    ordering_key  text collate "C",
    type          text not null,
    queue         text not null,
    payload       bytea not null,
    content_type  text not null,
    run_time      timestamptz,
    options       jsonb not null,
    bytes         integer not null,
    alone         boolean not null,
    enqueued_at   timestamptz not null,
    claimed_until timestamptz,
    sent_at       timestamptz,
    attempts      integer not null default 0,
    batch_first   bigint,
    batch_last    bigint,
    batch_size    integer,
    parked_at     timestamptz,
    reason        text,
    error         text
) with (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000
);

create index if not exists rota_outbox_plain on @schema@.rota_outbox (seq)
    where ordering_key is null and parked_at is null;
create index if not exists rota_outbox_keyed on @schema@.rota_outbox (ordering_key, seq)
    where ordering_key is not null;
create index if not exists rota_outbox_parked on @schema@.rota_outbox (seq)
    where parked_at is not null;

-- One row for each ordering key in use. It is a lock: transactions that enqueue under one key do so one after another.
-- Without it a later row could be committed, and published, before an earlier one is visible. Rows and not advisory
-- locks, which a transaction with thousands of keys would run out of.
create table if not exists @schema@.rota_outbox_keys (
    ordering_key text collate "C" primary key
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

comment on table @schema@.rota_outbox is
    'Jobs that wait for their creation in Rota. Written by rota_enqueue, emptied by `rota outbox relay`.';
comment on table @schema@.rota_outbox_keys is
    'Locks of ordering keys in use. Written by rota_enqueue, tidied by `rota outbox relay`.';

create or replace function @schema@.rota_outbox_version() returns integer
    language sql immutable as 'select 1';

-- The helpers are called by rota_enqueue alone, within its search_path.
create or replace function @schema@.rota_outbox_refuse(argument text, expected text, given text) returns void
    language plpgsql as $function$
begin
    raise exception using
        errcode = 'invalid_parameter_value',
        message = format('rota_enqueue: %s: expected %s, found %s', argument, expected, coalesce(left(given, 80), 'null'));
end
$function$;

create or replace function @schema@.rota_outbox_text(argument text, value text, bytes_max integer) returns text
    language plpgsql as $function$
declare
    size integer := octet_length(convert_to(value, 'UTF8'));
begin
    if size not between 1 and bytes_max then
        perform @schema@.rota_outbox_refuse(argument, format('1 to %s bytes of UTF-8', bytes_max), format('%s', size));
    end if;
    return value;
end
$function$;

create or replace function @schema@.rota_outbox_texts(
    argument text, value jsonb, count_max integer, bytes_max integer
) returns jsonb
    language plpgsql as $function$
declare
    entry record;
    entries integer := 0;
    size integer := 0;
begin
    if value is null then
        return null;
    end if;
    if jsonb_typeof(value) <> 'object' then
        perform @schema@.rota_outbox_refuse(argument, 'a JSON object of texts', jsonb_typeof(value));
    end if;
    for entry in select e.key, e.value from jsonb_each(value) e loop
        if jsonb_typeof(entry.value) <> 'string' then
            perform @schema@.rota_outbox_refuse(
                argument || '.' || left(entry.key, 40), 'a text', entry.value::text);
        end if;
        perform @schema@.rota_outbox_text(argument || ' (key)', entry.key, @MAP_KEY_BYTES_MAX@);
        if argument = 'headers' and lower(entry.key) like 'rota-%' then
            perform @schema@.rota_outbox_refuse(argument, 'names that do not begin with rota-', entry.key);
        end if;
        entries := entries + 1;
        size := size + octet_length(convert_to(entry.key || (entry.value #>> '{}'), 'UTF8'));
    end loop;
    if entries > count_max then
        perform @schema@.rota_outbox_refuse(argument, format('at most %s entries', count_max), format('%s', entries));
    end if;
    if size > bytes_max then
        perform @schema@.rota_outbox_refuse(argument, format('at most %s bytes in all', bytes_max), format('%s', size));
    end if;
    return case when entries > 0 then value end;
end
$function$;

create or replace function @schema@.rota_outbox_seconds(
    argument text, span interval, low_s double precision, high_s double precision
) returns double precision
    language plpgsql as $function$
declare
    span_s double precision := extract(epoch from span);
begin
    if span_s not between low_s and high_s then
        perform @schema@.rota_outbox_refuse(argument, format('%s s to %s s', low_s, high_s), format('%s s', span_s));
    end if;
    return span_s;
end
$function$;

-- Runs with its owner's rights on two tables, with a pinned search_path and without dynamic SQL.
create or replace function @schema@.rota_enqueue(
    type              text,
    payload           jsonb default null,
    queue             text default 'default',
    run_time          timestamptz default null,
    delay             interval default null,
    priority          integer default null,
    max_attempts      integer default null,
    run_timeout       interval default null,
    start_by          interval default null,
    total_timeout     interval default null,
    headers           jsonb default null,
    labels            jsonb default null,
    ordering_key      text default null,
    concurrency_key   text default null,
    effect_key        text default null,
    dedupe_key        text default null,
    dedupe_window     interval default null,
    dedupe_scope      text default null,
    on_conflict       text default null,
    request_id        text default null,
    traceparent       text default null,
    payload_bytes     bytea default null,
    content_type      text default null
) returns uuid
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $function$
#variable_conflict use_variable
declare
    outbox_id uuid := gen_random_uuid();
    at timestamptz := clock_timestamp();
    in_queue text := coalesce(queue, 'default');
    body bytea;
    media_type text;
    due timestamptz := run_time;
    trace text;
    more jsonb;
begin
    if (type ~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$') is not true then
        perform @schema@.rota_outbox_refuse(
            'type', '1 to 128 letters, digits or ._:/- that begin with a letter or digit', quote_literal(type));
    end if;
    if in_queue !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' then
        perform @schema@.rota_outbox_refuse(
            'queue', '1 to 64 letters, digits or ._- that begin with a letter or digit', quote_literal(in_queue));
    end if;

    if payload is not null and payload_bytes is not null then
        perform @schema@.rota_outbox_refuse('payload_bytes', 'payload or payload_bytes', 'both');
    end if;
    body := coalesce(payload_bytes, convert_to(payload::text, 'UTF8'));
    if octet_length(body) > @PAYLOAD_BYTES_MAX@ then
        perform @schema@.rota_outbox_refuse(
            case when payload is null then 'payload_bytes' else 'payload' end,
            'at most @PAYLOAD_BYTES_MAX@ bytes; store the data elsewhere and send a reference',
            format('%s', octet_length(body)));
    end if;
    media_type := coalesce(
        @schema@.rota_outbox_text('content_type', content_type, @CONTENT_TYPE_BYTES_MAX@),
        case when payload is not null then 'application/json'
             when payload_bytes is not null then 'application/octet-stream'
             else '' end);

    if run_time is not null and delay is not null then
        perform @schema@.rota_outbox_refuse('delay', 'run_time or delay', 'both');
    end if;
    if delay is not null then
        perform @schema@.rota_outbox_seconds('delay', delay, 0, @HORIZON_S@);
        due := at + delay;
    elsif run_time > at + make_interval(secs => @HORIZON_S@) then
        perform @schema@.rota_outbox_refuse('run_time', 'an instant within ten years', format('%s', run_time));
    end if;
    if due <= at then
        due := null;
    end if;

    if priority not between 0 and @PRIORITY_MAX@ then
        perform @schema@.rota_outbox_refuse('priority', '0 to @PRIORITY_MAX@', format('%s', priority));
    end if;
    if max_attempts not between 1 and @MAX_ATTEMPTS_MAX@ then
        perform @schema@.rota_outbox_refuse('max_attempts', '1 to @MAX_ATTEMPTS_MAX@', format('%s', max_attempts));
    end if;
    if dedupe_key is null and (dedupe_window is not null or dedupe_scope is not null or on_conflict is not null) then
        perform @schema@.rota_outbox_refuse(
            'dedupe_key', 'together with dedupe_window, dedupe_scope or on_conflict', 'none');
    end if;
    if dedupe_scope not in ('type', 'queue', 'tenant') then
        perform @schema@.rota_outbox_refuse('dedupe_scope', 'type, queue or tenant', quote_literal(dedupe_scope));
    end if;
    if on_conflict not in ('return_existing', 'fail') then
        perform @schema@.rota_outbox_refuse('on_conflict', 'return_existing or fail', quote_literal(on_conflict));
    end if;
    -- A malformed trace is nobody's reason to fail a transaction.
    if traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then
        trace := traceparent;
    end if;
    more := jsonb_strip_nulls(jsonb_build_object(
        'priority', priority,
        'max_attempts', max_attempts,
        'run_timeout_s', @schema@.rota_outbox_seconds('run_timeout', run_timeout, 1, @RUN_TIMEOUT_MAX_S@),
        'start_by_s', @schema@.rota_outbox_seconds('start_by', start_by, 1, @START_BY_MAX_S@),
        'total_timeout_s', @schema@.rota_outbox_seconds('total_timeout', total_timeout, 1, @TOTAL_TIMEOUT_MAX_S@),
        'headers', @schema@.rota_outbox_texts('headers', headers, @HEADERS_MAX@, @HEADERS_BYTES_MAX@),
        'labels', @schema@.rota_outbox_texts('labels', labels, @LABELS_MAX@, @LABELS_BYTES_MAX@),
        'concurrency_key',
            @schema@.rota_outbox_text('concurrency_key', concurrency_key, @CONCURRENCY_KEY_BYTES_MAX@),
        'effect_key', @schema@.rota_outbox_text('effect_key', effect_key, @EFFECT_KEY_BYTES_MAX@),
        'dedupe_key', @schema@.rota_outbox_text('dedupe_key', dedupe_key, @DEDUPE_KEY_BYTES_MAX@),
        'dedupe_window_s', @schema@.rota_outbox_seconds('dedupe_window', dedupe_window, 1, @DEDUPE_WINDOW_MAX_S@),
        'dedupe_scope', dedupe_scope,
        'on_conflict', on_conflict,
        'traceparent', trace));
    perform @schema@.rota_outbox_text('request_id', request_id, @REQUEST_ID_BYTES_MAX@);
    perform @schema@.rota_outbox_text('ordering_key', ordering_key, @ORDERING_KEY_BYTES_MAX@);

    if ordering_key is not null then
        loop
            perform from @schema@.rota_outbox_keys k where k.ordering_key = rota_enqueue.ordering_key
                for no key update;
            exit when found;
            insert into @schema@.rota_outbox_keys values (ordering_key) on conflict do nothing;
        end loop;
    end if;
    insert into @schema@.rota_outbox (
        id, request_id, ordering_key, type, queue, payload, content_type, run_time, options, bytes, alone, enqueued_at)
    values (
        outbox_id, request_id, ordering_key, type, in_queue, coalesce(body, ''), media_type, due, more,
        coalesce(octet_length(body), 0) + octet_length(more::text),
        -- What goes with others goes in one call, which has one request id and one trace.
        ordering_key is not null or dedupe_key is not null or request_id is not null or trace is not null,
        at);
    return outbox_id;
end
$function$;

comment on function @schema@.rota_enqueue is
    'Creates a job in Rota if, and only if, the transaction that calls it commits. Returns the id of the wish.';

revoke all on @schema@.rota_outbox, @schema@.rota_outbox_keys from public;
revoke all on function
    @schema@.rota_outbox_refuse, @schema@.rota_outbox_text, @schema@.rota_outbox_texts, @schema@.rota_outbox_seconds,
    @schema@.rota_enqueue
from public;

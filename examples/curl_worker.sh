#!/bin/sh
# A worker with nothing but curl: it opens a session, leases one job at a time, beats while the job runs, and reports how
# it ended. The job's payload is what a command gets at its standard input; what it prints is the result.
#
#   ROTA_HTTP=http://127.0.0.1:7080 ROTA_API_KEY=... examples/curl_worker.sh QUEUE COMMAND [ARGUMENT]...
#
# It ends at Ctrl-C or SIGTERM, and by itself after ROTA_JOBS jobs, if that is set.
set -eu

http=${ROTA_HTTP:-http://127.0.0.1:7080}
key=${ROTA_API_KEY:-$(cat "${ROTA_HOME:-$HOME/.rota}/dev/api-key")}
[ $# -ge 2 ] || { echo "usage: curl_worker.sh QUEUE COMMAND [ARGUMENT]..." >&2; exit 2; }
queue=$1
shift

# POST PATH with the body at standard input. The answer stays apart from a refusal, which curl tells by its exit code.
# A call that found nobody is made again, with the same body and so the same requestId.
post() {
  curl --silent --show-error --fail-with-body --max-time 60 --retry 5 --retry-connrefused \
    --header "Authorization: Bearer $key" --header "Content-Type: application/json" --data-binary @- "$http$1"
}

# The first text under a name in the JSON at standard input. 64-bit integers are texts; so are payloads, in base64.
field() {
  grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4
}

session=$(printf '{"worker":"curl-%s","queues":["%s"],"slots":1}' "$$" "$queue" | post /internal/sessions | field session)
work=$(mktemp -d)
echo '{"leases":[],"batches":{}}' >"$work/held"
# Leases live as long as the session does, and the session by its beats.
(
  seq=0
  while sleep 2; do
    seq=$((seq + 1))
    printf '{"beat":{"seq":%s,"inventory":%s}}' "$seq" "$(cat "$work/held")" |
      post "/internal/$session:heartbeat" || true
  done
) >/dev/null &
beats=$!
close() {
  trap - EXIT INT TERM
  kill "$beats" 2>/dev/null || true
  printf '{"mode":"CLOSE_MODE_NOW"}' | post "/internal/$session:close" >/dev/null || true
  rm -rf "$work"
}
trap close EXIT
trap 'exit 0' INT TERM

batch=0
asked=0
done=0
while [ "$done" -lt "${ROTA_JOBS:-999999999}" ]; do
  asked=$((asked + 1))
  # A call that fails is repeated under the same requestId: the same lease comes again.
  until printf '{"requestId":"%s","ackBatch":"%s","capacity":1,"wait":"5s"}' "$asked" "$batch" |
    post "/internal/$session:lease" >"$work/lease"; do
    reason=$(field reason <"$work/lease") || true
    case $reason in '' | RATE_LIMITED | DRAINING | STORE_UNAVAILABLE | SHARD_MOVED) sleep 1 ;; *) exit 1 ;; esac
  done
  job=$(field job <"$work/lease") || true
  [ -n "$job" ] || continue
  fence=$(field fence <"$work/lease")
  batch=$(field batch <"$work/lease")
  printf '{"leases":[{"job":"%s","fence":"%s"}],"batches":{"0":"%s"}}' "$job" "$fence" "$batch" >"$work/next"
  mv "$work/next" "$work/held"
  { field data <"$work/lease" || true; } | base64 -d >"$work/payload"
  outcome="\"session\":\"$session\",\"fence\":\"$fence\",\"requestId\":\"$job/$fence\""
  if "$@" <"$work/payload" >"$work/result"; then
    result=$(head -c 65536 "$work/result" | base64 | tr -d '\n')
    printf '{%s,"succeeded":{"result":{"data":"%s"}}}' "$outcome" "$result"
  else
    printf '{%s,"failed":{"failure":{"type":"ExitCode","message":"exit code %s"}}}' "$outcome" "$?"
  fi >"$work/outcome"
  # A refusal, such as of a lease that was lost, is final: the job is another worker's now.
  if post "/internal/$job/complete" <"$work/outcome" >"$work/answer"; then
    echo "$job $(field state <"$work/answer")"
  else
    echo "$job refused: $(field reason <"$work/answer")" >&2
  fi
  printf '{"leases":[],"batches":{"0":"%s"}}' "$batch" >"$work/held"
  done=$((done + 1))
done

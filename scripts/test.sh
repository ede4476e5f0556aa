#!/usr/bin/env bash
# The whole suite, from nothing. What this machine lacks is installed where that is possible; what had to be left out
# is said loudly at the end, and is a failure with CI=true.
set -euo pipefail
cd "$(dirname "$0")/.."
left_out=()

if [ ! -x /usr/lib/postgresql/15/bin/postgres ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing PostgreSQL 15, the oldest supported, for the store suite ..." >&2
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy postgresql-15; } >/dev/null 2>&1 || true
fi

if [ ! -x /usr/sbin/pgbouncer ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing PgBouncer, which Rota is to work behind ..." >&2
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy pgbouncer; } >/dev/null 2>&1 || true
fi

if { ! command -v curl || ! command -v jq; } >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing curl and jq, for the calls that the README prints ..." >&2
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy curl jq; } >/dev/null 2>&1 || true
fi

[ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null || left_out+=("the test behind PgBouncer: no pgbouncer here (Debian: apt-get install pgbouncer)")
for tool in curl jq; do
  command -v "$tool" >/dev/null || left_out+=("calls by HTTP as the README prints them: no $tool (Debian: apt-get install $tool)")
done
command -v openssl >/dev/null || left_out+=("the TLS tests: no openssl to make certificates with")
make --no-print-directory check
make --no-print-directory e2e
make --no-print-directory bench-quick
if [ -x /usr/lib/postgresql/15/bin/postgres ]; then
  echo "the store suite again, on PostgreSQL 15" >&2
  ROTA_TEST_PG=15 make --no-print-directory store-suite
else
  left_out+=("the store suite on PostgreSQL 15: no server in /usr/lib/postgresql/15/bin (Debian: apt-get install postgresql-15)")
fi

for reason in ${left_out[@]+"${left_out[@]}"}; do
  printf '\n*** LEFT OUT: %s\n' "$reason" >&2
done
if [ ${#left_out[@]} -gt 0 ] && [ "${CI:-}" = true ]; then
  echo "*** with CI=true nothing may be left out" >&2
  exit 1
fi

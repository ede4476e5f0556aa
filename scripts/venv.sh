#!/usr/bin/env bash
# Makes the project's own Python environment, with everything that users, tests and checks need. Says nothing when all
# goes well. Usage: venv.sh PYTHON FOLDER
set -euo pipefail
python=$1 venv=$2

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Rota needs Python 3.11 or newer, found $("$python" --version 2>&1); set PYTHON, for example: make PYTHON=python3.12" >&2
  exit 1
}
echo "making $venv (once) ..." >&2
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || {
  echo "the module venv is missing: install python3-venv, or set PYTHON to another Python" >&2
  exit 1
}
"$venv/bin/python" -m pip install -q --disable-pip-version-check "$(grep '^uv==' requirements/dev.txt)"
if ! "$venv/bin/uv" pip install -q --python "$venv/bin/python" -r requirements/dev.txt -e workers/python -e '.[local,otel]'; then
  # uv does not read every setting of pip's (proxies, indexes, certificates).
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -r requirements/dev.txt -e workers/python -e '.[local,otel]'
fi

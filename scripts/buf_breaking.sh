#!/bin/sh
# Fails when the contract in the working tree breaks an earlier one, by `buf breaking`. Works without network.
#
#   scripts/buf_breaking.sh         compares with what the list below names
#   scripts/buf_breaking.sh REV     compares with that revision only
#
# On a branch: with the merge base of HEAD and main, so that what main has gained since is not taken for a removal.
# On main itself, where main would be compared with itself: with HEAD for what is not committed yet, and with HEAD's
# first parent for what is. A revision that cannot be compared with (none in a shallow clone, no contract in it yet)
# is named and passed over: there is nothing that could be broken.
set -eu

cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

commit() { git rev-parse --quiet --verify "$1^{commit}" 2>/dev/null; }

if [ $# -gt 0 ]; then
  commit "$1" >/dev/null || { echo "buf breaking: expected a revision, found none named '$1'" >&2; exit 2; }
  revisions=$1
elif ! head=$(commit HEAD); then
  revisions=
else
  main=$(commit refs/heads/main || commit refs/remotes/origin/main || true)
  if [ "$main" = "$head" ] || [ -z "$main" ]; then
    revisions="HEAD HEAD~1"
  else
    revisions=$(git merge-base HEAD "$main" || true)
  fi
fi

base=$(mktemp -d)
trap 'rm -rf "$base"' EXIT
compared=
for revision in $revisions; do
  if ! commit "$revision" >/dev/null; then
    echo "buf breaking: passed over $revision: not in this clone" >&2
  elif ! git cat-file -e "$revision:buf.yaml" 2>/dev/null || ! git cat-file -e "$revision:proto" 2>/dev/null; then
    echo "buf breaking: passed over $revision: no contract in it yet" >&2
  else
    # From an archive rather than `.git#ref=…`: buf cannot fetch a commit that no branch points to.
    rm -rf "$base/tree" && mkdir "$base/tree"
    git archive "$revision" buf.yaml proto | tar -x -C "$base/tree"
    buf breaking --against "$base/tree"
    compared="$compared $revision"
  fi
done
[ -n "$compared" ] || echo "buf breaking: nothing to compare with" >&2

#!/bin/sh
# Runs the tests in two processes at once: those that share one Spark session, and all others.
#
# usage: scripts/test.sh PYTHON [OPTION ...]: the options go to both. The former run in the background, where a shell lets
# no Ctrl-C through (some of the others send one), and are shown when both are done.
set -u

python="$1"
shift
said="$(mktemp)"
trap 'rm -f "$said"' EXIT
trap 'kill "$shared" 2> /dev/null; wait; exit 130' INT TERM

echo "Without the tests that share a Spark session; they run meanwhile:"
"$python" -m pytest tests -m spark "$@" > "$said" 2>&1 &
shared=$!
"$python" -m pytest tests -m "not spark" "$@"
others_failed=$?
wait "$shared"
shared_failed=$?
echo
echo "The tests that share a Spark session:"
cat "$said"
exit $((shared_failed != 0 || others_failed != 0))

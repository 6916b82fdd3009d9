#!/bin/sh
# Runs the tests in two processes at once: those that share one Spark session, and all others.
#
# usage: scripts/test.sh PYTHON [OPTION ...]: the options go to both. What the others say comes when both are done.
set -u

python="$1"
shift
said="$(mktemp)"
trap 'rm -f "$said"' EXIT
trap 'kill "$others" 2> /dev/null; wait; exit 130' INT TERM

echo "With a shared Spark session; meanwhile all others:"
"$python" -m pytest tests -m "not spark" "$@" > "$said" 2>&1 &
others=$!
"$python" -m pytest tests -m spark "$@"
shared_failed=$?
wait "$others"
others_failed=$?
echo
echo "All others:"
cat "$said"
exit $((shared_failed != 0 || others_failed != 0))

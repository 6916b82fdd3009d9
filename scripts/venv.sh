#!/bin/sh
# Creates .venv with everything Anabranch and its tests need, or says in one sentence what is missing.
#
# An environment that this directory already finished is kept and brought up to date; any other is made anew.
set -eu

PYTHON="${PYTHON:-python3}"

stop() {
    echo "setup: $*" >&2
    exit 1
}

command -v "$PYTHON" > /dev/null ||
    stop "'$PYTHON' was not found: install Python 3.11 or later, or name one with 'make setup PYTHON=/path/to/python'."

version="$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    stop "'$PYTHON' is Python $version, and Anabranch needs 3.11 or later: name another with 'make setup PYTHON=/path/to/python'."

if ! "$PYTHON" -c 'import ensurepip, venv' 2> /dev/null; then # Debian keeps these in a package of their own
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        echo "Installing python$version-venv ..."
        { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "python$version-venv"; } > /dev/null ||
            stop "apt-get could not install 'python$version-venv': install it, or another Python 3.11 or later."
    else
        stop "$PYTHON cannot create virtual environments: install the package 'python$version-venv' and try again."
    fi
fi

if [ "$(cat .venv/.ready 2> /dev/null)" != "$(pwd -P)" ]; then
    echo "Creating .venv with Python $version ..."
    "$PYTHON" -m venv --clear .venv
fi

# -qq: errors only; pip's warnings about its own configuration are not about Anabranch
echo "Installing dependencies (one to two minutes, once) ..."
.venv/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'

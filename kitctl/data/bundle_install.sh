#!/bin/sh
# Installs kitctl from the files beside this one, without network: sh install.sh [FOLDER]
# Needs Python with venv. Every wheel is checked by its hash.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$HOME/.local/share/kitctl/venv}
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$here" \
    --require-hashes --requirement "$here/requirements.txt"
echo "$venv/bin/kitctl"

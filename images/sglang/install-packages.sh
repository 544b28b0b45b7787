#!/bin/sh
# Install the locked packages that a name list of the pin set holds into /opt/engine, byte code included.
# usage: install-packages LIST   (/pins: the pin set's folder; /opt/installer: uv and the kit's scripts)
set -eu
uv=/opt/installer/uv/bin/uv
site=/opt/engine/lib/python3.11/site-packages
export UV_CACHE_DIR=/var/cache/uv UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1 UV_NO_CONFIG=1
export PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
if [ -s /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi
if [ -s /run/secrets/netrc ]; then export NETRC=/run/secrets/netrc; fi
if [ -s /run/secrets/uvconf ]; then
    unset UV_NO_CONFIG
    export UV_CONFIG_FILE=/run/secrets/uvconf
fi
[ -d /opt/engine ] || "$uv" venv --quiet --python /usr/bin/python3 /opt/engine
python3 /opt/installer/kit/select_packages.py /pins/constraints.txt "/pins/$1" > /tmp/requirements.txt
"$uv" pip install --quiet --python /opt/engine/bin/python --no-deps --require-hashes --only-binary :all: \
    --requirement /tmp/requirements.txt
python3 -m compileall -q -j 2 --invalidation-mode unchecked-hash "$site" > /tmp/compileall.log || tail -n 3 /tmp/compileall.log

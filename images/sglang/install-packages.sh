#!/bin/sh
# Install the locked packages that a name list of the pin set holds into /opt/engine.
# usage: install-packages LIST [compile]   (/pins: the pin set's folder; /opt/installer: the installer stage)
set -eu
kit=/opt/installer/opt/kit
uv=/opt/installer/opt/uv/bin/uv
site=/opt/engine/lib/python3.11/site-packages
export UV_CACHE_DIR=/var/cache/uv UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1 UV_NO_CONFIG=1
export PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
if [ -s /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi
if [ -s /run/secrets/netrc ]; then export NETRC=/run/secrets/netrc; fi
if [ -s /run/secrets/uvconf ]; then
    unset UV_NO_CONFIG
    export UV_CONFIG_FILE=/run/secrets/uvconf
fi

strip_symbols() {
    LD_LIBRARY_PATH=/opt/installer/usr/lib/x86_64-linux-gnu /opt/installer/usr/bin/strip --strip-unneeded "$@"
}

[ -d /opt/engine ] || "$uv" venv --quiet --python /usr/bin/python3 /opt/engine
touch /tmp/before
python3 "$kit/select_packages.py" /pins/constraints.txt "/pins/$1" > /tmp/requirements.txt
"$uv" pip install --quiet --python /opt/engine/bin/python --no-deps --require-hashes --only-binary :all: \
    --requirement /tmp/requirements.txt
cd "$site"
# What nothing in the image can load: static libraries, extensions for another Python, CUDA 12 twins.
while read -r pattern; do
    # The patterns are meant to expand.
    # shellcheck disable=SC2086
    rm -rf $pattern
done < "$kit/dropped-files.txt"
# Symbol tables, by far the larger part of these libraries. A file of an earlier layer stays as it is.
while read -r pattern; do
    for library in $pattern; do
        if [ -f "$library" ] && [ -n "$(find "$library" -cnewer /tmp/before)" ]; then strip_symbols "$library"; fi
    done
done < "$kit/stripped-files.txt"
if [ "${2:-}" = compile ]; then
    python3 -W ignore -m compileall -q -j 2 --invalidation-mode unchecked-hash "$site" > /tmp/compileall.log \
        || tail -n 3 /tmp/compileall.log
fi

#!/bin/sh
# Install the locked packages of one layer (/opt/requirements.txt) into /opt/engine.
# usage: install-packages.sh [compile]   (/opt/installer: the installer stage, which has uv and strip; /kit: this folder)
set -eu
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
"$uv" pip install --quiet --python /opt/engine/bin/python --no-deps --require-hashes --only-binary :all: \
    --requirement /opt/requirements.txt
cd "$site"
# What nothing in the image can load or reads: each with its reason in the list.
sed 's/ *#.*//' /kit/dropped-files.txt | while read -r pattern; do
    # The patterns are meant to expand.
    # shellcheck disable=SC2086
    rm -rf $pattern
done
# Symbol tables, by far the larger part of these libraries. A file of an earlier layer stays as it is.
while read -r pattern; do
    for library in $pattern; do
        if [ -f "$library" ] && [ -n "$(find "$library" -cnewer /tmp/before)" ]; then strip_symbols "$library"; fi
    done
done < /kit/stripped-files.txt
python3 -B /kit/link_equal_files.py "$site" /tmp/before
if [ "${1:-}" = compile ]; then
    # This layer's own modules alone: compileall writes byte code with a hash inside again each time it is asked.
    find "$site" -name '*.py' -cnewer /tmp/before > /tmp/modules
    python3 -W ignore -m compileall -q -j 2 --invalidation-mode unchecked-hash -i /tmp/modules > /tmp/compileall.log \
        || tail -n 3 /tmp/compileall.log
fi
find / -xdev -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} + 2>/dev/null || true

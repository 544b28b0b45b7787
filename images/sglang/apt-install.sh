#!/bin/sh
# Install distribution packages with the machine's own mirrors (secrets), leaving neither lists nor logs behind.
# usage: apt-install.sh PACKAGE...
set -eu
export DEBIAN_FRONTEND=noninteractive
set -- --no-install-recommends --yes "$@"
options="-o APT::Sandbox::User=root -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -o APT::Keep-Downloaded-Packages=true"
[ ! -s /run/secrets/aptsources ] || options="$options -o Dir::Etc::SourceList=/run/secrets/aptsources -o Dir::Etc::SourceParts=-"
[ ! -s /run/secrets/netrc ] || options="$options -o Dir::Etc::netrc=/run/secrets/netrc"
[ ! -s /run/secrets/ca ] || options="$options -o Acquire::https::CAInfo=/run/secrets/ca"
[ ! -s /run/secrets/aptconf ] || export APT_CONFIG=/run/secrets/aptconf
rm -f /etc/apt/apt.conf.d/docker-clean
# The options are words, split on purpose.
# shellcheck disable=SC2086
apt-get $options --quiet=2 update
# shellcheck disable=SC2086
apt-get $options --quiet=2 install "$@"
# What nothing in the image uses: link-time optimisation and sanitizers of the compiler, Python as a static library.
rm -f /usr/bin/*lto-dump* /usr/lib/gcc/*/*/lto1 /usr/lib/gcc/*/*/lib[altu]*san* /usr/lib/*-linux-gnu/lib[altu]*san.so* \
    /usr/lib/python3*/config-*/*.a
rm -f /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old
# Byte code with time stamps inside would differ from build to build.
find /usr/lib/python3* -name __pycache__ -type d -prune -exec rm -rf {} + || true
if [ -x /usr/bin/python3 ]; then
    PYTHONHASHSEED=0 python3 -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python3*
fi
find / -xdev -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} + 2>/dev/null || true

# Installs into /opt/tailrace inside an image's build stage, which is thrown away with pip and compilers in it.
#   locked         the packages of group.lock, hashes checked; builder.lock has what builds them
#   jars           the locked jars of the sink, SHA-256 checked
#   project        Tailrace itself, from the sources beside this script
set -eu

step=$1
if [ -f /run/secrets/ca ]; then
    export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca
fi
if [ -f /run/secrets/pip ]; then
    export PIP_CONFIG_FILE=/run/secrets/pip
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off

case $step in
locked)
    if ! python3 -c 'import ensurepip' 2> /dev/null; then
        # Debian's own Python keeps it in a package of its own.
        apt-get update
        apt-get install --yes --no-install-recommends python3-venv
    fi
    python3 -m venv /build/tools
    /build/tools/bin/pip install --require-hashes --no-deps -r builder.lock
    # PySpark comes as a source archive only. What builds it comes from the lock, too: no build isolation.
    /build/tools/bin/pip wheel --require-hashes --no-deps --no-build-isolation --wheel-dir /build/wheels -r group.lock
    python3 -m venv --without-pip /opt/tailrace/venv
    # Byte code is made here: the root file system is read-only later.
    /build/tools/bin/pip --python /opt/tailrace/venv/bin/python install --no-deps --no-index /build/wheels/*.whl
    rm -rf /build/wheels
    ;;
jars)
    # The downloads are kept between builds; each file's SHA-256 is checked all the same.
    PYTHONPATH=/build/compose:/build/emulator TAILRACE_CACHE=/var/cache/tailrace /opt/tailrace/venv/bin/python -m tailrace_compose.local.jars fetch spark s3
    mkdir -p /opt/tailrace/cache/jars
    cp -r /var/cache/tailrace/jars/spark /var/cache/tailrace/jars/s3 /opt/tailrace/cache/jars/
    ;;
project)
    /build/tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /build/wheels /build/emulator /build
    /build/tools/bin/pip --python /opt/tailrace/venv/bin/python install --no-deps --no-index /build/wheels/tailrace*.whl
    ;;
*)
    echo "build_packages.sh: unknown step $step" >&2
    exit 2
    ;;
esac

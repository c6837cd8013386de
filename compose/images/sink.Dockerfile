# The sink: Spark with Java 17 and the locked jars. Built from the clone's root, by BuildKit:
#   docker build --file compose/images/sink.Dockerfile .
# `make images` does it with this machine's proxy and certificate authorities.
#
# The base has Python 3.11 or newer as python3; any Debian or Ubuntu image with it will do.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS java
# The package wants a folder of manual pages that slim images leave out.
RUN mkdir -p /usr/share/man/man1 && apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates openjdk-17-jre-headless unixodbc libltdl7 libgssapi-krb5-2 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log

# The part of the lock that this image needs: what follows is built anew only when that part changes.
FROM ${BASE_IMAGE} AS lock
COPY requirements.lock compose/tailrace_compose/images/packages.py /
RUN python3 packages.py builder < requirements.lock > builder.lock && python3 packages.py sink < requirements.lock > group.lock

FROM java AS build
WORKDIR /build
COPY --from=lock builder.lock group.lock ./
COPY compose/images/build_packages.sh ./
# A network's own certificate authorities (id=ca) and pip's settings (id=pip) are mounted for the step, not copied.
RUN --mount=type=secret,id=ca --mount=type=secret,id=pip --mount=type=cache,target=/root/.cache/pip \
    sh build_packages.sh locked
# Only what fetching the jars needs, so that a change of the code does not fetch them again.
COPY compose/tailrace_compose/__init__.py compose/tailrace_compose/__init__.py
COPY compose/tailrace_compose/local compose/tailrace_compose/local
COPY emulator/tailrace_emulator/__init__.py emulator/tailrace_emulator/__init__.py
COPY emulator/tailrace_emulator/testing emulator/tailrace_emulator/testing
ARG TAILRACE_MAVEN_MIRROR
RUN --mount=type=secret,id=ca --mount=type=cache,target=/var/cache/tailrace sh build_packages.sh jars
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY service service
COPY emulator emulator
COPY publisher publisher
COPY spark_sink spark_sink
COPY compose compose
COPY tailrace tailrace
# Pages and a script that the package links to.
COPY docs/runbooks docs/runbooks
COPY docs/genuine docs/genuine
RUN sh build_packages.sh project

FROM java AS sink
# Hadoop asks the system for the user's name, so it needs an entry in /etc/passwd.
RUN useradd --uid 10001 --user-group --create-home tailrace \
 && install --directory --owner 10001 --group 10001 /lake
COPY --from=build /opt/tailrace /opt/tailrace
# Spark's scratch files go to /tmp: with a read-only root file system mount one there that may execute,
# because the compression libraries unpack their native part into it.
ENV PATH=/opt/tailrace/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TAILRACE_CACHE=/opt/tailrace/cache \
    TAILRACE__SINK__METRICS_PORT=9405 TAILRACE__SINK__METRICS_HOST=0.0.0.0
USER 10001:10001
WORKDIR /tmp
ARG VERSION=local
LABEL org.opencontainers.image.vendor="Tailrace" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.title="tailrace-sink" \
      org.opencontainers.image.description="Carries Tailrace's topics into lake tables"
EXPOSE 9405
VOLUME /lake
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=6 \
    CMD ["python", "-I", "-m", "tailrace_compose.images.health", "sink"]
ENTRYPOINT ["tailrace"]
CMD ["sink", "--config", "/etc/tailrace/tailrace.yaml"]

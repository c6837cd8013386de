# Two images of one set of packages: `publisher` (the default) and, with --target emulator, the embedded SQL Server.
# Built from the clone's root, by BuildKit:   docker build --file compose/images/publisher.Dockerfile .
# `make images` does it with this machine's proxy and certificate authorities.
#
# The base has Python 3.11 or newer as python3; any Debian or Ubuntu image with it will do.
ARG BASE_IMAGE=python:3.11-slim-bookworm

# The part of the lock that this image needs: what follows is built anew only when that part changes.
FROM ${BASE_IMAGE} AS lock
COPY requirements.lock compose/tailrace_compose/images/packages.py /
RUN python3 packages.py builder < requirements.lock > builder.lock && python3 packages.py publisher < requirements.lock > group.lock

FROM ${BASE_IMAGE} AS build
WORKDIR /build
COPY --from=lock builder.lock group.lock ./
COPY compose/images/build_packages.sh ./
# A network's own certificate authorities (id=ca) and pip's settings (id=pip) are mounted for the step, not copied.
RUN --mount=type=secret,id=ca --mount=type=secret,id=pip --mount=type=cache,target=/root/.cache/pip \
    sh build_packages.sh locked
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

FROM ${BASE_IMAGE} AS runtime
# What the ODBC wheels load (compose/tailrace_compose/local/set_up.py has the same list).
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates unixodbc libltdl7 libgssapi-krb5-2 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log
# 10001 is also the user of the SQL Server image: one owner for the files with the passwords.
RUN useradd --uid 10001 --user-group --create-home tailrace
COPY --from=build /opt/tailrace /opt/tailrace
ENV PATH=/opt/tailrace/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
ARG VERSION=local
LABEL org.opencontainers.image.vendor="Tailrace" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"

FROM runtime AS emulator
USER root
RUN install --directory --owner 10001 --group 10001 /var/opt/mssql
USER 10001:10001
LABEL org.opencontainers.image.title="tailrace-emulator" \
      org.opencontainers.image.description="An embedded SQL Server with change data capture, for development and tests"
EXPOSE 1433
VOLUME /var/opt/mssql
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=6 \
    CMD ["python", "-I", "-m", "tailrace_compose.images.health", "tds"]
ENTRYPOINT ["python", "-m", "tailrace_compose.images.emulator_entry"]

FROM runtime AS publisher
LABEL org.opencontainers.image.title="tailrace-publisher" \
      org.opencontainers.image.description="Publishes the change tables of a SQL Server database to Kafka"
ENV TAILRACE__PUBLISHER__METRICS_PORT=9404 TAILRACE__PUBLISHER__METRICS_HOST=0.0.0.0
EXPOSE 9404
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-I", "-m", "tailrace_compose.images.health", "publisher"]
ENTRYPOINT ["tailrace"]
CMD ["publish", "--config", "/etc/tailrace/tailrace.yaml"]

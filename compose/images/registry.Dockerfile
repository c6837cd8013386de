# A stand-in for the official Apicurio image where nothing can be pulled: the same version from its locked archive,
# configured by the same variables. Built by `make images` from a folder that holds registry/ beside compose/.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE}
RUN mkdir -p /usr/share/man/man1 && apt-get update \
 && apt-get install --yes --no-install-recommends curl openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log
RUN useradd --uid 185 --user-group --no-create-home registry \
 && install --directory --owner 185 --group 185 /var/lib/registry
COPY registry /opt/registry
COPY compose/tailrace_compose/images/health.py /opt/registry/health.py
USER 185:185
WORKDIR /tmp
# No telemetry; the heap is that of the local stack.
ENV QUARKUS_OTEL_SDK_DISABLED=true \
    JAVA_TOOL_OPTIONS="-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ARG VERSION
LABEL org.opencontainers.image.title="tailrace-registry" \
      org.opencontainers.image.description="Apicurio Registry from its locked archive: a stand-in for apicurio/apicurio-registry" \
      org.opencontainers.image.version="${VERSION}"
EXPOSE 8080
VOLUME /var/lib/registry
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python3", "-I", "/opt/registry/health.py", "registry"]
ENTRYPOINT ["java", "-jar", "/opt/registry/runner.jar"]

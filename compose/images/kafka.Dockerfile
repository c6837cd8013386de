# A stand-in for the official Kafka image where nothing can be pulled: the same broker version from the locked jars,
# configured by the same KAFKA_... variables. Built by `make images` from a folder that holds jars/ beside compose/.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE}
RUN mkdir -p /usr/share/man/man1 && apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log
# 1000 and the data folder are the official image's.
RUN useradd --uid 1000 --user-group --no-create-home appuser \
 && install --directory --owner 1000 --group 1000 /var/lib/kafka/data
COPY jars/kafka /opt/kafka/libs
COPY compose/tailrace_compose/local/kafka-log4j2.xml /opt/kafka/config/log4j2.xml
COPY compose/tailrace_compose/images/kafka_entry.py compose/tailrace_compose/images/health.py /opt/kafka/bin/
COPY compose/images/broker_api_versions.sh /opt/kafka/bin/kafka-broker-api-versions.sh
RUN chmod 755 /opt/kafka/bin/kafka-broker-api-versions.sh
USER 1000:1000
WORKDIR /tmp
ARG VERSION
LABEL org.opencontainers.image.title="tailrace-kafka" \
      org.opencontainers.image.description="Apache Kafka from locked jars: a stand-in for apache/kafka" \
      org.opencontainers.image.version="${VERSION}"
EXPOSE 9092
VOLUME /var/lib/kafka/data
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python3", "-I", "/opt/kafka/bin/health.py", "kafka"]
ENTRYPOINT ["python3", "-I", "/opt/kafka/bin/kafka_entry.py"]

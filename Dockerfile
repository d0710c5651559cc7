# One image for the api and the workers; the command says which.
# another base must have Python 3.11 or 3.12 with venv, and useradd
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python3 -m venv /opt/cyclops
COPY requirements.lock ./
RUN /opt/cyclops/bin/pip install --require-hashes --requirement requirements.lock
COPY pyproject.toml ./
COPY accel accel
COPY worker worker
COPY service service
COPY examples examples
RUN /opt/cyclops/bin/pip install --no-deps .

FROM ${BASE}
COPY --from=build /opt/cyclops /opt/cyclops
RUN useradd --uid 10001 --user-group --no-create-home cyclops \
    && install --directory --owner cyclops --group cyclops /data
ENV PATH=/opt/cyclops/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    CYCLOPS_LOG_FORMAT=json \
    CYCLOPS_DATA=/data \
    XDG_CACHE_HOME=/data/cache \
    ORT_DISABLE_TELEMETRY=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["cyclops", "health"]
ENTRYPOINT ["cyclops"]
CMD ["serve", "--host", "0.0.0.0"]

# Two images: `tailrace` (the default) runs any command of ours, `etcd` is the store that docker-compose.yml gives the
# Streaming Controller: Debian's own, which the tests run as well.

FROM debian:12-slim AS etcd
RUN apt-get update \
    && apt-get install --yes --no-install-recommends etcd-server \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10002 store \
    && install --directory --owner store /data
USER store
VOLUME /data
ENTRYPOINT ["etcd"]

FROM python:3.11-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /tailrace && /tailrace/bin/pip install --no-cache-dir .

FROM python:3.11-slim AS tailrace
COPY --from=build /tailrace /tailrace
# Volumes get the owner of these directories, so that docker-compose.secure.yml needs no root.
RUN useradd --system --uid 10001 tailrace \
    && for name in authority sc spu-1 spu-2 spu-3 admin; do \
        install --directory --owner tailrace /data /certificates /certificates/$name; done
# The data outlives the container, and the metrics can be scraped from outside of it.
ENV PATH=/tailrace/bin:$PATH TAILRACE_DATA=/data TAILRACE_METRICS=0.0.0.0:9008
USER tailrace
VOLUME /data
# Whether the process responds. Whether it serves clients is /readyz, which a standby never is.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:9008/healthz', timeout=4)"]
ENTRYPOINT ["tailrace"]

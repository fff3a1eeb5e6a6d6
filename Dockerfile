# lvsd as a container image: the daemon is the entry point.
#
#   docker build -t lvsd .
#   docker run --rm -v ./config/lvsd.toml:/etc/lvsd/lvsd.toml:ro lvsd check
#   docker run -d --name lvsd --network host --cap-drop ALL --cap-add NET_ADMIN --read-only \
#     --tmpfs /run/lvsd -v /etc/lvsd:/etc/lvsd:ro -v lvsd-state:/var/lib/lvsd lvsd
#   docker exec lvsd lvsd status
#
# --network host: the table is that of the network name space the daemon is in. NET_ADMIN: what
# writing it needs, and all that it needs. The host loads the module (modprobe ip_vs). The state
# volume keeps verdicts and orders over restarts of the container.

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin lvsd && install -D target/release/lvsd /out/usr/bin/lvsd

# Debian and not an empty image, because check and notification scripts are programs, too.
FROM debian:bookworm-slim
COPY --from=build /out/ /
# Trust roots for TLS checks without a `ca` of their own.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
RUN mkdir -p /etc/lvsd /run/lvsd /var/lib/lvsd
# As in systemd/lvsd.service.
ENV MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
ENTRYPOINT ["/usr/bin/lvsd"]
CMD ["run"]

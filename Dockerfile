# syntax=docker/dockerfile:1
#
#   docker build -t keystead .
#   docker run -d --name keystead -e KEYSTEAD_TOKEN="$(openssl rand -hex 32)" \
#     -p 127.0.0.1:6379:6379 -p 127.0.0.1:8080:8080 -v keystead-data:/data keystead
#
# A container listens on all addresses, so it needs a token and does not start without one. Instead of KEYSTEAD_TOKEN, a
# secret can be mounted as a file: -e KEYSTEAD_TOKEN_FILE=/run/secrets/keystead_token. Every setting is a variable:
# docker run --rm keystead config shows them, docker run --rm keystead help explains them.
#
# Without a Docker engine, packaging/try-dockerfile runs the steps below, and the server of the image.

FROM rust:1.95-bookworm AS build
# The commit that keystead --version shows. Without it, that of the checkout.
ARG KEYSTEAD_COMMIT
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo install --locked --path crates/server --root /out --no-track

FROM debian:bookworm-slim
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin keystead \
    && install -d -m 0700 -o keystead -g keystead /data
COPY --from=build /out/bin/keystead /usr/local/bin/keystead
ENV KEYSTEAD_HTTP=0.0.0.0:8080 \
    KEYSTEAD_RESP=0.0.0.0:6379 \
    KEYSTEAD_DATA=/data
USER keystead
# If /etc/keystead/keystead.toml is mounted, it is read. It must belong to root or to the user keystead (uid 10001).
WORKDIR /etc/keystead
VOLUME /data
EXPOSE 8080 6379
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 CMD ["keystead", "health"]
ENTRYPOINT ["keystead"]
CMD ["serve"]

# Sourced by lyre.sh: the only place that spells out Lyre's command line and configuration.
# The commands run as an ordinary user whose only privilege is membership in the group "lyre".

JOB_USER=job
PERF_PORT=5201
RENDEZVOUS_PORT=6201
PERF_BYTES=8388608

as_job() { runuser -u $JOB_USER -- "$@"; }

write_config() {
  cat > /etc/lyre/lyred.toml << TOML
[daemon]
name = "host-$GUEST"
socket = "/run/lyre/lyred.sock"
socket_group = "lyre"

[workers]
cores = [1]
idle = "adaptive"

[memory]
hugepages = "yes"

[[port]]
name = "wire"
device = "$NIC"
address = "$ME_WIRE/24"
mtu = 1500
TOML
}

status() { as_job timeout 20 lyre status "$@"; }
sessions() { as_job timeout 20 lyre sessions "$@"; }

# Ends after one client.
perf_server() { as_job timeout 90 lyre perf server --port $PERF_PORT --once; }
# Sends PERF_BYTES and compares the server's hash of them with its own.
perf_client() {
  as_job timeout 90 lyre perf client --host $PEER_WIRE --port $PERF_PORT \
    --bytes $PERF_BYTES --verify
}

# One rank of two; rank 0 is on guest a. The ranks find each other over the kernel's network.
allreduce_rank() {
  local rank=0
  [ "$GUEST" = a ] || rank=1
  as_job timeout 150 lyre allreduce --ranks 2 --rank $rank \
    --rendezvous "$([ $rank = 0 ] && echo $ME_ADMIN || echo $PEER_ADMIN):$RENDEZVOUS_PORT"
}

# Sourced by the scenarios of Lyre: the only place that spells out Lyre's command line and configuration.
# The commands run as an ordinary user whose only privilege is membership in the group "lyre-clients".

JOB_USER=job
PERF_PORT=5201
PERF_WINDOW=4MiB
PERF_LIMIT_S=90
MORE_CONFIG=
RENDEZVOUS_PORT=6201
ALLREDUCE_LIMIT_S=150

as_job() { runuser -u $JOB_USER -- "$@"; }

# write_config CORES
write_config() {
  cat > /etc/lyre/lyred.toml << TOML
[daemon]
name = "host-$GUEST"
socket = "/run/lyre/lyred.sock"
socket_group = "lyre-clients"

[workers]
cores = [$1]
idle = "adaptive"

[memory]
hugepages = "yes"

[[port]]
name = "wire"
device = "$NIC"
address = "$ME_WIRE/24"
mtu = 1500
$MORE_CONFIG
TOML
}

status() { as_job timeout 20 lyre status "$@"; }
sessions() { as_job timeout 20 lyre sessions --detail "$@"; }
stats() { as_job timeout 20 lyre stats "$@"; }
# What each worker has counted of something: counter NAME...
counter() { stats --json | python3 -c "
import json, sys
print(*(worker['counters'][name] for worker in json.load(sys.stdin)['workers']
        for name in '$*'.split()))"; }

# Of the daemon's only port: up, down, or the state of its device.
link() { status --json | python3 -c "
import json, sys
port = json.load(sys.stdin)['ports'][0]
print(port['link'])"; }

# Ends after one client. PERF_WINDOW: most bytes that either side has under way a session.
perf_server() {
  as_job timeout $PERF_LIMIT_S lyre perf server --listen 0.0.0.0:$PERF_PORT --once --unacked $PERF_WINDOW
}
perf_client() {
  local window=(--unacked $PERF_WINDOW)
  [[ " $* " != *" --kernel "* ]] || window=()
  as_job timeout $PERF_LIMIT_S lyre perf client $PEER_WIRE:$PERF_PORT "${window[@]}" "$@"
}

# One rank of two here, the other on the peer. They find each other over the kernel's network; the
# emulated wire carries some thousand packets a second, so that the gradients are small unless
# options say otherwise: allreduce_rank [OPTION...]
allreduce_rank() {
  [ $# -gt 0 ] || set -- --bytes 262144 --bytes 1048576 --iterations 1
  local meeting=(--listen "$ME_ADMIN:$RENDEZVOUS_PORT")
  [ "$GUEST" = a ] || meeting=(--join "$PEER_ADMIN:$RENDEZVOUS_PORT")
  as_job timeout $ALLREDUCE_LIMIT_S lyre allreduce --ranks 2 --local-ranks 1 "${meeting[@]}" \
    "$@" --no-kernel --timeout $((ALLREDUCE_LIMIT_S - 10)) --verbose
}

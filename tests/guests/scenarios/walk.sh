# The way of an operator, from packages: install, doctor, bind, configure, start, check a pair of
# hosts, look, upgrade under a running job, purge. At the end the machine is as it was.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh

TRANSCRIPT=/host/transcript.$GUEST
PROMETHEUS=http://127.0.0.1:9090
JOB_S=600
export DEBIAN_FRONTEND=noninteractive

finish() {
  local code=$?
  if [ $code -ne 0 ]; then
    tail -n 40 /tmp/job /tmp/prometheus.log 2> /dev/null
    systemctl status lyred --no-pager -l | head -n 20
    journalctl -u lyred --no-pager -o short-monotonic | tail -n 40
  fi
  exit $code
}
trap finish EXIT

# transcribe PROMPT COMMAND OUTPUT [PATTERN]: all of it goes to the log, and the lines of the output
# that match to the transcript for docs/user/operations.md.
transcribe() {
  printf '%s %s\n%s\n' "$1" "$2" "$3"
  { echo "$1 $2"; grep -E -- "${4:-.}" <<< "$3"; } >> "$TRANSCRIPT"
}

# typed root|job COMMAND [PATTERN]: runs a command line as an administrator or as a user types it.
typed() {
  local output status prompt='#' user=()
  [ "$1" = root ] || { prompt='$'; user=(as_job); }
  output=$("${user[@]}" bash -c "$2" 2>&1)
  status=$?
  transcribe "$prompt" "$2" "$output" "${3:-}"
  return $status
}

install_packages() {
  cd "$1" || fail "no $1"
  typed root "apt-get install -y ./*.deb" '^Setting up lyre' || fail "apt-get install in $1"
  cd /
}

# Files of the system, without what a running system writes by itself.
files() {
  find /etc /usr /opt /dev/shm /run/lyre* /var -xdev \( -type f -o -type l \) 2> /dev/null |
    grep -vE '^/var/(log|cache|tmp|lib/(dpkg|apt|systemd)|run)/|^/etc/(passwd|group|shadow|gshadow)-?$|^/etc/(subuid|subgid)-?$' |
    grep -vE '^/etc/ld.so.cache|__pycache__' | sort
}

# allreduce ITERATIONS: the command line with the peer, over the kernel's network for the rendezvous
allreduce() {
  local meeting=(--listen "$ME_ADMIN:$RENDEZVOUS_PORT")
  [ "$GUEST" = a ] || meeting=(--join "$PEER_ADMIN:$RENDEZVOUS_PORT")
  echo "lyre allreduce --ranks 2 --local-ranks 1 ${meeting[*]} --no-kernel" \
    "--bytes 1048576 --iterations $1 --timeout $((JOB_S - 10))"
}

has_sessions() { as_job lyre sessions | grep -q "$PEER_WIRE"; }

start_prometheus() {
  cat > /tmp/prometheus.yml << 'YAML'
global: {scrape_interval: 5s, evaluation_interval: 5s}
rule_files: [/usr/share/lyre/prometheus/lyre.rules.yml]
scrape_configs:
  - {job_name: lyre, static_configs: [{targets: ["127.0.0.1:9417"]}]}
YAML
  prometheus --config.file=/tmp/prometheus.yml --storage.tsdb.path=/tmp/prometheus \
    --web.listen-address="${PROMETHEUS#http://}" > /tmp/prometheus.log 2>&1 &
  PROMETHEUS_PID=$!
}
query() { promtool query instant $PROMETHEUS "$1"; }
has_scraped() { query lyre_up 2> /dev/null | grep -q '=> 1 '; }

screen_of_top() { tmux capture-pane -p -t top; }
is_peer_in_top() { screen_of_top | grep -q "$PEER_WIRE"; }
has_top_ended() { ! tmux has-session -t top 2> /dev/null; }
look_at_top() {
  tmux new-session -d -s top -x 80 -y 24 "runuser -u $JOB_USER -- lyre top"
  wait_for 60 "the sessions of the job in lyre top" is_peer_in_top
  transcribe '$' "lyre top" "$(screen_of_top)"
  tmux send-keys -t top q
  wait_for 20 "the end of lyre top" has_top_ended
}

step "before"
bring_up_admin_network
useradd $JOB_USER
INTERFACE=$(netdev_of "$NIC")
DRIVER_BEFORE=$(driver_of "$NIC")
ip addr add "$ME_WIRE/24" dev "$INTERFACE"
ip link set "$INTERFACE" up
files > /tmp/files.before

step "install"
install_packages /host/packages/now
systemctl is-active lyred && fail "the installation started a daemon without a port"
typed root "usermod -aG lyre-clients $JOB_USER"

step "lyre doctor, before"
typed root "lyre doctor" '^PROBLEM|problem' || echo "(exit status $?)"

step "bind the NIC"
typed root "lyre nic list"
# Behind an IOMMU they are optional, and nobody reserves them for the operator.
[ "$MODE" = uio ] || typed root "echo 192 > $HUGEPAGES/nr_hugepages"
typed root "lyre nic bind $INTERFACE >> /etc/lyre/lyred.toml" || fail "lyre nic bind"
[ "$(hugepages_total)" -eq 192 ] || fail "192 hugepages are wanted, $(hugepages_total) are there"
[ "$(driver_of "$NIC")" = "$DRIVER" ] || fail "the NIC is at $(driver_of "$NIC"), not $DRIVER"
[ -e "/etc/driverctl.d/pci-$NIC" ] || fail "the binding would be lost at the next boot"
typed root "tail -n 5 /etc/lyre/lyred.toml"

step "start"
typed root "lyred --check" || fail "lyred --check"
typed root "systemctl enable --now lyred lyre-metrics" || fail "systemctl enable --now"
start_prometheus
meet started 120
typed job "lyre status"
typed root "lyre doctor" 'problem' || fail "lyre doctor finds problems"

step "a pair of hosts"
typed job "$(allreduce 1)" || fail "lyre allreduce"
# The table is printed by the rank that listens.
[ $GUEST = b ] || grep -q '^total.* 1048576$' "$TRANSCRIPT" || fail "lyre allreduce verified nothing"
meet pair 120

# It rests between the all-reduces, as a job that computes.
step "a job"
line="LYRE_RESUME_SECONDS=120 LYRE_PEER_TIMEOUT_SECONDS=120 $(allreduce 90) --rest-ms 1000"
transcribe '$' "$line > /tmp/job &" ""
as_job timeout $JOB_S bash -c "$line" > /tmp/job 2>&1 &
job=$!
wait_for 60 "sessions of the job" has_sessions
typed job "lyre sessions"
typed job "lyre comms"
typed job "lyre trace $PEER_WIRE | head -n 8"
grep -q ESTABLISHED "$TRANSCRIPT" || fail "lyre sessions or trace shows no open session"
look_at_top
meet job-runs 120

step "upgrade under the job"
if [ $GUEST = a ]; then
  before=$(systemctl show -p MainPID --value lyred)
  install_packages /host/packages/next
  after=$(systemctl show -p MainPID --value lyred)
  [ "$after" != "$before" ] || fail "the upgrade left the old daemon running"
  tail -n 6 /etc/lyre/lyred.toml | grep -q "$ME_WIRE" || fail "the upgrade changed lyred.toml"
  kill -0 $job 2> /dev/null || fail "the job was over before the upgrade"
fi
wait $job || fail "the job did not survive the upgrade"
[ $GUEST = b ] || typed job "tail -n 4 /tmp/job"
[ $GUEST = b ] || grep -q verified /tmp/job || fail "the job verified nothing"
meet job-over 500

step "metrics"
wait_for 60 "a scrape of the daemon's metrics" has_scraped
typed job "promtool query instant $PROMETHEUS lyre_up"
typed job "promtool query instant $PROMETHEUS 'changes(lyre_daemon_start_time_seconds[1h])'"
# Prometheus saw the restart of the daemon that was upgraded, and no other.
restarts=0
[ $GUEST = b ] || restarts=1
query 'changes(lyre_daemon_start_time_seconds[1h])' | grep -q "=> $restarts " ||
  fail "Prometheus did not see $restarts restart(s)"
alarms=$(query 'ALERTS{alertstate="firing", severity="critical"}')
[ -z "$alarms" ] || fail "alerts: $alarms"
kill $PROMETHEUS_PID
wait $PROMETHEUS_PID

step "purge"
typed root "systemctl disable --now lyred lyre-metrics"
typed root "lyre nic unbind $NIC" || fail "lyre nic unbind"
typed root "apt-get purge -y lyre lyre-nccl" '^(Removing|Purging)' || fail "apt-get purge"
wait_for 20 "the NIC's network interface" has_netdev "$NIC"
[ "$(driver_of "$NIC")" = "$DRIVER_BEFORE" ] || fail "the NIC is at $(driver_of "$NIC")"
[ "$(hugepages_free)" -eq "$(hugepages_total)" ] || fail "hugepages are still in use"
[ "$MODE" = uio ] || typed root "echo 0 > $HUGEPAGES/nr_hugepages"
[ "$(hugepages_total)" -eq 0 ] || fail "$(hugepages_total) hugepages are left"
files > /tmp/files.after
diff /tmp/files.before /tmp/files.after || fail "files are not as before"
systemctl list-units --all 'lyre*' --no-legend | grep . && fail "units are left"
meet end
step "done"

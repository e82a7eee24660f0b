# The way of an operator, from packages: install, doctor, bind, configure, start, check a pair of
# hosts, look, upgrade under a running job, purge. At the end the machine is as it was.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh

METRICS=http://127.0.0.1:9417/metrics
JOB_S=400

finish() {
  local code=$?
  if [ $code -ne 0 ]; then
    cat /tmp/job /tmp/apt 2> /dev/null | tail -n 40
    systemctl status lyred --no-pager -l | head -n 20
    journalctl -u lyred --no-pager -o short-monotonic | tail -n 40
  fi
  exit $code
}
trap finish EXIT

# Shows a command as an operator types it, and runs it.
show() { echo "# $*"; "$@"; }

install_packages() {
  apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-confold install "$1"/*.deb \
    > /tmp/apt 2>&1 < /dev/null || { tail -n 20 /tmp/apt; fail "apt-get install $1"; }
  grep -E '^(Setting up|Unpacking) lyre' /tmp/apt
}

# Files of the system, without what a running system writes by itself.
files() {
  find /etc /usr /opt /dev/shm /run/lyre* /var -xdev \( -type f -o -type l \) 2> /dev/null |
    grep -vE '^/var/(log|cache|tmp|lib/(dpkg|apt|systemd)|run)/|^/etc/(passwd|group|shadow|gshadow)-?$|^/etc/(subuid|subgid)-?$' |
    grep -vE '^/etc/ld.so.cache|__pycache__' | sort
}

allreduce() {  # allreduce ITERATIONS: with the peer, over the kernel's network for the rendezvous
  local meeting=(--listen "$ME_ADMIN:$RENDEZVOUS_PORT")
  [ "$GUEST" = a ] || meeting=(--join "$PEER_ADMIN:$RENDEZVOUS_PORT")
  as_job env LYRE_RESUME_SECONDS=120 LYRE_PEER_TIMEOUT_SECONDS=120 timeout $JOB_S \
    lyre allreduce --ranks 2 --local-ranks 1 "${meeting[@]}" --bytes 1048576 --iterations "$1" \
    --no-kernel --timeout $((JOB_S - 10))
}

has_sessions() { as_job lyre sessions | grep -q "$PEER_WIRE"; }

step "before"
bring_up_admin_network
useradd $JOB_USER
INTERFACE=$(netdev_of "$NIC")
DRIVER_BEFORE=$(driver_of "$NIC")
show ip addr add "$ME_WIRE/24" dev "$INTERFACE"
ip link set "$INTERFACE" up
files > /tmp/files.before

step "install"
show install_packages /host/packages/now
systemctl is-active lyred && fail "the installation started a daemon without a port"
usermod -aG lyre-clients $JOB_USER

step "lyre doctor, before"
show lyre doctor || echo "(exit status $?)"

step "bind the NIC"
show lyre nic list
reserve_hugepages 192
lyre nic bind "$INTERFACE" >> /etc/lyre/lyred.toml || fail "lyre nic bind"
[ "$(driver_of "$NIC")" = "$DRIVER" ] || fail "the NIC is at $(driver_of "$NIC"), not $DRIVER"
[ -e "/etc/driverctl.d/pci-$NIC" ] || fail "the binding would be lost at the next boot"
tail -n 6 /etc/lyre/lyred.toml
if [ "$MODE" = uio ]; then
  mkdir -p /etc/systemd/system/lyred.service.d
  show ln -s /usr/share/lyre/lyred.service.d/no-iommu.conf /etc/systemd/system/lyred.service.d/
  systemctl daemon-reload
fi

step "start"
show lyred --check || fail "lyred --check"
show systemctl enable --now lyred || fail "systemctl enable --now lyred"
show systemctl start lyre-metrics || fail "lyre-metrics"
meet started 120
show as_job lyre status
show lyre doctor || fail "lyre doctor finds problems"

step "a pair of hosts"
allreduce 1 > /tmp/pair 2>&1 || { cat /tmp/pair; fail "lyre allreduce"; }
cat /tmp/pair
# The table is printed by the rank that listens.
[ $GUEST = b ] || grep -q verified /tmp/pair || fail "lyre allreduce verified nothing"
meet pair 120

step "upgrade under a running job"
allreduce 250 > /tmp/job 2>&1 &
job=$!
wait_for 60 "sessions of the job" has_sessions
show as_job lyre sessions
show as_job lyre comms
meet job-runs 120
if [ $GUEST = a ]; then
  before=$(systemctl show -p MainPID --value lyred)
  show install_packages /host/packages/next
  after=$(systemctl show -p MainPID --value lyred)
  [ "$after" != "$before" ] || fail "the upgrade left the old daemon running"
  tail -n 6 /etc/lyre/lyred.toml | grep -q "$ME_WIRE" || fail "the upgrade changed lyred.toml"
  kill -0 $job 2> /dev/null || fail "the job was over before the upgrade"
fi
wait $job || { cat /tmp/job; fail "the job did not survive the upgrade"; }
tail -n 3 /tmp/job
[ $GUEST = b ] || grep -q verified /tmp/job || fail "the job verified nothing"
meet job-over 400

step "metrics"
python3 -c "
import urllib.request
print(urllib.request.urlopen('$METRICS', timeout=20).read().decode(), end='')" > "/host/metrics.$GUEST" ||
  fail "no metrics"
grep -q '^lyre_up 1' "/host/metrics.$GUEST" || fail "lyre_up is not 1"
grep -E '^lyre_(up|port_received_bytes_total|worker_sessions)' "/host/metrics.$GUEST"

step "purge"
rm -f /etc/systemd/system/lyred.service.d/no-iommu.conf
rmdir /etc/systemd/system/lyred.service.d 2> /dev/null
show systemctl disable --now lyred lyre-metrics
show lyre nic unbind "$NIC" || fail "lyre nic unbind"
show apt-get -q -y purge lyre lyre-nccl > /tmp/apt 2>&1 < /dev/null || fail "apt-get purge"
wait_for 20 "the NIC's network interface" has_netdev "$NIC"
[ "$(driver_of "$NIC")" = "$DRIVER_BEFORE" ] || fail "the NIC is at $(driver_of "$NIC")"
return_hugepages
files > /tmp/files.after
diff /tmp/files.before /tmp/files.after || fail "files are not as before"
systemctl list-units --all 'lyre*' --no-legend | grep . && fail "units are left"
meet end
step "done"

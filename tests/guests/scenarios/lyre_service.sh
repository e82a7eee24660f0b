# Sourced by the scenarios of Lyre, after lyre_cli.sh: the service from its installation to its end,
# and a transfer between the guests.

# What the service said belongs into the output of a run that failed.
finish() {
  local code=$?
  if [ $code -ne 0 ]; then
    tail -n 40 /tmp/perf
    stats
    systemctl status lyred --no-pager -l | head -n 20
    journalctl -u lyred --no-pager -o short-monotonic | tail -n 60
  fi
  exit $code
}
trap finish EXIT

# A host that stands still for a while must not look like a daemon that does.
make_watchdog_patient() {
  mkdir -p /run/systemd/system/lyred.service.d
  printf '[Service]\nWatchdogSec=600\n' > /run/systemd/system/lyred.service.d/patient.conf
}

install_lyre() {
  tar -C / --keep-directory-symlink --no-overwrite-dir -xf /host/lyre.tar
  ldconfig
  systemd-sysusers
  systemd-tmpfiles --create
  if [ "$DRIVER" = uio_pci_generic ]; then
    mkdir -p /etc/systemd/system/lyred.service.d
    ln -s "$(find /usr -path '*/lyred.service.d/no-iommu.conf')" /etc/systemd/system/lyred.service.d
  fi
  make_watchdog_patient
  udevadm control --reload
  systemctl daemon-reload
  useradd --groups lyre-clients $JOB_USER
  systemd-analyze verify --man=no lyred.service
}

start_lyred() {
  systemctl start lyred || fail "systemctl start lyred"
  [ "$(systemctl is-active lyred)" = active ] || fail "lyred is $(systemctl is-active lyred)"
}

stop_lyred() {
  systemctl stop lyred || fail "systemctl stop lyred"
  [ "$(systemctl show -p Result --value lyred)" = success ] ||
    fail "lyred ended with $(systemctl show -p Result --value lyred)"
}

# From a bare guest to a daemon that both guests know to be running: bring_up_lyre CORES
bring_up_lyre() {
  step "install"
  bring_up_admin_network
  install_lyre || fail "install"

  step "$DRIVER and hugepages"
  reserve_hugepages 192
  bind "$NIC" "$DRIVER"
  write_config "$1"

  step "start"
  start_lyred
  status || fail "lyre status"
  meet started 90
}

# start_perf NAME DIALER OPTION...: DIALER's client and the other guest's server, in the background.
start_perf() {
  local name=$1 dialer=$2
  shift 2
  if [ $GUEST = "$dialer" ]; then
    meet "$name-listening"
    perf_client "$@" > /tmp/perf 2>&1 &
  else
    perf_server > /tmp/perf 2>&1 &
    # The client may come once the server listens; it says so by showing up as a listener.
    wait_for 30 "the perf server's listener" sh -c "lyre sessions | grep -q $PERF_PORT"
    meet "$name-listening"
  fi
  PERF_PID=$!
}

# end_perf NAME
end_perf() {
  wait $PERF_PID || { cat /tmp/perf; fail "lyre perf"; }
  cat /tmp/perf
  meet "$1-over" 120
}

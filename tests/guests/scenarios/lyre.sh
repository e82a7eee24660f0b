# Lyre as an operator meets it: install, bind the NIC, start the service, use it from both guests,
# survive a crash, stop, get the NIC and the memory back.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh

# What the service said belongs into the output of a run that failed.
finish() {
  local code=$?
  if [ $code -ne 0 ]; then
    systemctl status lyred --no-pager -l | head -n 20
    journalctl -u lyred --no-pager -o short-monotonic | tail -n 60
  fi
  exit $code
}
trap finish EXIT

install_lyre() {
  tar -C / --keep-directory-symlink --no-overwrite-dir -xf /host/lyre.tar
  ldconfig
  systemd-sysusers
  systemd-tmpfiles --create
  systemctl daemon-reload
  useradd --groups lyre $JOB_USER
  systemd-analyze verify --man=no lyred.service
}

start_lyred() {
  systemctl start lyred || fail "systemctl start lyred"
  [ "$(systemctl is-active lyred)" = active ] || fail "lyred is $(systemctl is-active lyred)"
}

# A session with the peer, as `lyre sessions` prints it.
sees_session() { sessions | grep -F "$PEER_WIRE"; }

run_perf() {
  if [ $GUEST = b ]; then
    perf_server > /tmp/perf 2>&1 &
    # The client may come once the server listens; it says so by showing up as a listener.
    wait_for 30 "the perf server's listener" sh -c "lyre sessions | grep -q $PERF_PORT"
    meet perf-listening
  else
    meet perf-listening
    perf_client > /tmp/perf 2>&1 &
  fi
  local pid=$!
  wait_for 30 "a session with the peer in 'lyre sessions'" sees_session
  wait $pid || { cat /tmp/perf; fail "lyre perf"; }
  cat /tmp/perf
  meet perf-over 120
}

crash_lyred() {
  systemctl kill --signal=KILL lyred
  restarted() {
    [ "$(systemctl show -p NRestarts --value lyred)" = 1 ] && systemctl -q is-active lyred
  }
  wait_for 40 "the restart of a killed daemon" restarted
  status > /dev/null || fail "lyre status after the restart"
}

stop_lyred() {
  systemctl stop lyred || fail "systemctl stop lyred"
  [ "$(systemctl show -p Result --value lyred)" = success ] ||
    fail "lyred ended with $(systemctl show -p Result --value lyred)"
}

step "install"
bring_up_admin_network
install_lyre || fail "install"

step "$DRIVER and hugepages"
reserve_hugepages 192
bind $NIC $DRIVER
write_config

step "start"
start_lyred
status || fail "lyre status"
ps -o user=,args= -C lyred
[ "$(hugepages_free)" -lt "$(hugepages_total)" ] || fail "lyred took no hugepage"
runuser -u nobody -- lyre status && fail "a user outside the group lyre was let in"
meet started 90

step "perf"
run_perf

step "allreduce"
allreduce_rank || fail "lyre allreduce"
meet allreduce-over 180

step "crash and restart"
crash_lyred
meet restarted 90

step "stop"
stop_lyred
give_nic_to_kernel
return_hugepages
ip addr add "$ME_WIRE/24" dev "$(netdev_of $NIC)"
ip link set "$(netdev_of $NIC)" up
meet kernel-has-nic
wait_for 20 "a ping of the peer over the returned NIC" ping -q -c 1 -W 1 $PEER_WIRE
meet end
step "done"

# Lyre as an operator meets it: install, bind the NIC, start the service, use it from both guests,
# survive a crash, stop, get the NIC and the memory back.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh

# A session with the peer, as `lyre sessions` prints it.
sees_session() { sessions | grep -F "$PEER_WIRE"; }

run_perf() {
  start_perf perf a --bytes 67108864 --verify
  wait_for 30 "a session with the peer in 'lyre sessions'" sees_session
  end_perf perf
}

# No worker has copied what clients sent: the NIC fetched it from their memory. Only what is sent
# again is copied.
expect_no_copies() {
  local again
  again=$(counter tcp_payload_retransmitted)
  [ "$(counter copied_tx_bytes)" = "$again" ] ||
    fail "copied_tx_bytes is $(counter copied_tx_bytes), and $again bytes were sent again"
  [ "$(counter tx_linearised_bytes)" = 0 ] || fail "tx_linearised_bytes is not 0"
}

run_allreduce() {
  allreduce_rank > /tmp/allreduce 2>&1 || { cat /tmp/allreduce; fail "lyre allreduce"; }
  cat /tmp/allreduce
  grep -q "Lyre .*ports:" /tmp/allreduce || fail "the plugin's log is not in the output"
  ! grep "memory are copied" /tmp/allreduce || fail "the plugin copies what it is to send"
}

crash_lyred() {
  systemctl kill --signal=KILL lyred
  restarted() {
    [ "$(systemctl show -p NRestarts --value lyred)" = 1 ] && systemctl -q is-active lyred
  }
  wait_for 40 "the restart of a killed daemon" restarted
  status > /dev/null || fail "lyre status after the restart"
}

# A wire of sockets carries no packets that are not cut, and the daemon says so.
refuse_super_packets() {
  MORE_CONFIG="super_packets = true" write_config 1
  ! timeout 60 lyred --config /etc/lyre/lyred.toml > /tmp/refused 2>&1 ||
    fail "lyred runs with super-packets on a NIC without LRO"
  grep "no super-packets: the host does not offer" /tmp/refused ||
    { cat /tmp/refused; fail "lyred does not say that the NIC has no LRO"; }
}

bring_up_lyre 1
ps -o user=,args= -C lyred
[ "$(hugepages_free)" -lt "$(hugepages_total)" ] || fail "lyred took no hugepage"
runuser -u nobody -- lyre status && fail "a user outside the group lyre-clients was let in"

step "perf"
run_perf

step "allreduce"
run_allreduce
expect_no_copies
meet allreduce-over 180

step "crash and restart"
crash_lyred
meet restarted 90

step "stop"
stop_lyred
refuse_super_packets
give_nic_to_kernel
return_hugepages
ip addr add "$ME_WIRE/24" dev "$(netdev_of $NIC)"
ip link set "$(netdev_of $NIC)" up
meet kernel-has-nic
wait_for 20 "a ping of the peer over the returned NIC" ping -q -c 1 -W 1 $PEER_WIRE
meet end
step "done"

# Sourced by scenarios with RDMA, after lyre_service.sh: rdma_rxe (RoCE v2) over the kernel's NIC, or
# over a macvlan of it, which can be lost while the ranks' rendezvous goes on.

RXE=rxe0
MACVLAN=macvlan0
case $GUEST in
  a) ME_MACVLAN=10.7.0.1 PEER_MACVLAN=10.7.0.2 MACVLAN_MAC=02:00:00:00:03:01 ;;
  b) ME_MACVLAN=10.7.0.2 PEER_MACVLAN=10.7.0.1 MACVLAN_MAC=02:00:00:00:03:02 ;;
esac
# Of an RDMA packet's payload, with the NIC's MTU of 1500.
RXE_MTU_BYTES=1024
# A container of NCCL's allows the same: memory that a device reads is locked.
ulimit -l unlimited
# 4.3 s. An emulated host is late, and rdma_rxe of Linux 6.1 sends wrong bytes when it sends again
# while acknowledgements arrive (its requester and its completer read comp.psn at the same time).
export LYRE_VERBS_TIMEOUT=20 LYRE_VERBS_EMULATED=1

# The NIC itself must not answer for the macvlan's address: rdma_rxe hears only what comes to the
# macvlan. Without MAC addresses of their own both would have the same: systemd makes them of the
# machine's id and the name.
add_macvlan() {
  sysctl -q -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
  ip link add link "$(netdev_of $ADMIN_NIC)" name $MACVLAN address $MACVLAN_MAC type macvlan \
    mode bridge ||
    fail "this kernel has no macvlan"
  ip addr add "$ME_MACVLAN/24" dev $MACVLAN
  ip link set $MACVLAN up
  meet macvlan-up
  wait_for 20 "a ping of the peer over the macvlan" ping -q -c 1 -W 1 $PEER_MACVLAN
}

# add_rdma [NETDEV]
add_rdma() {
  modprobe rdma_rxe || fail "this kernel has no rdma_rxe"
  rdma link add $RXE type rxe netdev "${1:-$(netdev_of $ADMIN_NIC)}" || fail "rdma link add"
  rdma link show $RXE/1 | grep -F 'state ACTIVE' || fail "$RXE is not active"
}

# rdma_counter NAME: of the RDMA device; 0 while there is none.
rdma_counter() { cat "/sys/class/infiniband/$RXE/ports/1/hw_counters/$1" 2> /dev/null || echo 0; }
rdma_bytes_max() { echo $((($(rdma_counter sent_pkts) + $(rdma_counter rcvd_pkts)) * RXE_MTU_BYTES)); }
# Bytes of payload that the daemon's sessions have sent and received.
tcp_bytes() { echo $(($(counter tcp_payload_in tcp_payload_out | tr ' ' +))); }

# An all-reduce on both guests, its output in /tmp/allreduce. The emulated daemon of a busy host may
# answer too late: then, and for no other reason, it begins anew.
# allreduce_over NAME VERBS [OPTION...]
allreduce_over() {
  local name=$1 verbs=$2 attempt outcome
  shift 2
  for attempt in 1 2 3 4; do
    meet "$name-$attempt" 180
    outcome=verified
    LYRE_VERBS=$verbs allreduce_rank "$@" > /tmp/allreduce 2>&1 || outcome=failed
    ! grep 'the daemon did not answer within' /tmp/allreduce || outcome=late
    echo $outcome > "/host/$name-$attempt-is.$GUEST"
    meet "$name-$attempt-over" 180
    grep -q late "/host/$name-$attempt-is.a" "/host/$name-$attempt-is.b" || break
  done
  [ $outcome = verified ] || { cat /tmp/allreduce; fail "lyre allreduce with LYRE_VERBS=$verbs"; }
}

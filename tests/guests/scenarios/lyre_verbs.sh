# Queue pairs of the plugin over libibverbs and a device of the kernel: rdma_rxe on the kernel's NIC,
# the daemon on the other one.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh
. /host/scenarios/lyre_rdma.sh

# Of 256 KiB and 1 MiB in two passes, sent and received.
GRADIENT_BYTES=5242880

# As for DSCP 26. Packets of rdma_rxe have none unless it is set.
TRAFFIC_CLASS=104

has_ended() { ! kill -0 "$1" 2> /dev/null; }

# The gradients went over queue pairs: the RDMA device has packets for most of their bytes, and TCP
# does not have those. [LYRE_VERBS_MODE=MODE] expect_verbs NAME VERBS
expect_verbs() {
  local rdma tcp
  rdma=$(rdma_bytes_max)
  tcp=$(tcp_bytes)
  allreduce_over "$1" "$2"
  cat /tmp/allreduce
  rdma=$(($(rdma_bytes_max) - rdma))
  tcp=$(($(tcp_bytes) - tcp))
  echo "$1, LYRE_VERBS=$2: up to $rdma bytes over RDMA, $tcp bytes over TCP," \
    "$(rdma_counter completer_retry_err) retries"
  grep -q "queue pair 0 is there .*, mode ${LYRE_VERBS_MODE:-1})" /tmp/allreduce ||
    fail "no queue pair of mode ${LYRE_VERBS_MODE:-1}"
  [ "$rdma" -gt $((GRADIENT_BYTES / 2)) ] || fail "the gradients did not go over RDMA"
  [ "$tcp" -lt $((GRADIENT_BYTES / 2)) ] || fail "the gradients went over TCP"
}

bring_up_lyre 1

step "rdma_rxe"
add_rdma
meet rdma-up

for run in "auto 1" "auto 2" "only 2"; do
  read -r verbs mode <<< "$run"
  step "allreduce over queue pairs, LYRE_VERBS=$verbs LYRE_VERBS_MODE=$mode"
  LYRE_VERBS_MODE=$mode expect_verbs "$verbs-$mode" "$verbs"
done

step "settings"
tcpdump -i "$(netdev_of $ADMIN_NIC)" -Q out -c 1 "udp dst port 4791 and ip[1] = $TRAFFIC_CLASS" \
  > /tmp/tcpdump 2>&1 &
tcpdump_pid=$!
wait_for 20 "a capture" grep -q 'listening on' /tmp/tcpdump
LYRE_VERBS_DEVICES=$RXE LYRE_VERBS_GID_INDEX=1 LYRE_VERBS_QUEUE_PAIRS=2 \
  LYRE_VERBS_TRAFFIC_CLASS=$TRAFFIC_CLASS expect_verbs settings only
grep -q 'queue pair 1 is there' /tmp/allreduce || fail "there is one queue pair, not two"
wait_for 10 "the end of the capture" has_ended $tcpdump_pid
cat /tmp/tcpdump

step "one host without RDMA"
[ $GUEST = a ] || rdma link delete $RXE
meet one-sided-begins
allreduce_over one-sided auto
cat /tmp/allreduce
! grep 'queue pair [0-9]* is there' /tmp/allreduce || fail "a queue pair without a device"
[ $GUEST = b ] || grep -q 'the peer says: this host has no RDMA device' /tmp/allreduce ||
  fail "the peer does not say why there is none"
! LYRE_VERBS=only allreduce_rank > /tmp/allreduce 2>&1 ||
  fail "lyre allreduce with LYRE_VERBS=only where one host has no RDMA"
cat /tmp/allreduce
[ $GUEST = a ] || grep -q 'LYRE_VERBS=only, and no data can go over RDMA' /tmp/allreduce ||
  fail "it is not said why"
meet refused 180

step "stop"
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

# A virtual wire that carries TCP packets of 64 KiB: the NIC is given them (TSO) and gives them (LRO)
# uncut, in both directions, and every byte is right.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh

MORE_CONFIG="super_packets = true"
SENT_BYTES=67108864
MSS=1460
# Of payload in a received packet, on average. The ACKs of the other direction count as packets, too.
LEAST_BYTES=$((4 * MSS))

sum() { echo $(($(counter "$1" | tr ' ' +))); }

# expect_uncut BYTES PACKETS: received since these counts
expect_uncut() {
  local payload=$(($(sum tcp_payload_in) - $1)) packets=$(($(sum rx_packets) - $2))
  echo "received $payload bytes in $packets packets: $((payload / packets)) each"
  [ $((payload / packets)) -ge $LEAST_BYTES ] || fail "that is less than $LEAST_BYTES"
}

# transfer DIALER: bytes that it sends, on several sessions, so that each worker has some.
transfer() {
  local before
  before="$(sum tcp_payload_in) $(sum rx_packets)"
  start_perf "$1-sends" "$1" --bytes $((SENT_BYTES / 8)) --sessions 8 --verify
  end_perf "$1-sends"
  [ $GUEST = "$1" ] || expect_uncut $before
}

# Guest b's kernel has the NIC, and takes and gives such packets, too.
take_from_kernel() {
  local before
  before="$(sum tcp_payload_in) $(sum rx_packets)"
  start_perf kernel-sends b --bytes $((SENT_BYTES / 8)) --sessions 8 --verify
  end_perf kernel-sends
  expect_uncut $before
}
send_from_kernel() {
  local device
  stop_lyred
  give_nic_to_kernel
  device=$(netdev_of "$NIC")
  ip addr add "$ME_WIRE/24" dev "$device"
  ip link set "$device" up
  start_perf kernel-sends b --kernel --bytes $((SENT_BYTES / 8)) --sessions 8 --verify
  end_perf kernel-sends
}

QUEUES=$(ls -d "/sys/class/net/$(netdev_of "$NIC")"/queues/rx-* | wc -l)
bring_up_lyre "$(seq -s ', ' 0 $((QUEUES - 1)))"

step "packets that a sends"
transfer a

step "packets that b sends"
transfer b

step "allreduce"
allreduce_rank || fail "lyre allreduce"
meet allreduce-over 180

step "packets that the kernel sends"
[ $GUEST = a ] || send_from_kernel
[ $GUEST = b ] || take_from_kernel

step "stop"
if [ $GUEST = a ]; then
  stats
  stop_lyred
  give_nic_to_kernel
fi
return_hugepages
meet end
step "done"

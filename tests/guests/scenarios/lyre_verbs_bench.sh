# What queue pairs carry beside perftest over the same rdma_rxe, and TCP lanes over the daemon. Times
# under emulation: only ratios of one run mean something.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh
. /host/scenarios/lyre_rdma.sh

ROUNDS=3
# The slot of a queue pair.
PERFTEST_SIZE=65536
# Of each direction, as the all-reduce: with two ranks each sends and receives all of it.
REDUCED_BYTES=8388608

# perftest PROGRAM: both directions at once. Guest b's end goes on its way when a's listens.
perftest() {
  local peer=
  meet "perftest-$((++perftests))"
  [ $GUEST = a ] || { sleep 3; peer=$PEER_ADMIN; }
  timeout 120 $1 -d $RXE -F -b -s $PERFTEST_SIZE -n $((REDUCED_BYTES / PERFTEST_SIZE)) -u 20 $peer \
    > /tmp/perftest 2>&1 || { cat /tmp/perftest; fail "$1"; }
  echo "$1: $(awk "\$1 == $PERFTEST_SIZE { print \$4 }" /tmp/perftest) MiB/s, both directions"
}

# [LYRE_VERBS_MODE=MODE] reduce VERBS: the median all-reduce.
reduce() {
  local microseconds what="LYRE_VERBS=$1"
  [ $1 = off ] || what+=", mode $LYRE_VERBS_MODE"
  allreduce_over "reduce-$((++reductions))" "$1" --bytes $REDUCED_BYTES --iterations 3
  [ $GUEST = a ] || return 0
  microseconds=$(awk '$1 == "total" { print $3 }' /tmp/allreduce)
  awk -v what="$what" -v us="$microseconds" -v lost="$(grep -c 'is lost' /tmp/allreduce)" "BEGIN {
    rate = 2 * $REDUCED_BYTES / 1.048576 / us
    printf \"%s: %.2f MiB/s, both directions; %d queue pairs lost\n\", what, rate, lost
  }"
}

bring_up_lyre 1

step "rdma_rxe"
add_rdma
meet rdma-up

perftests=0
reductions=0
for ((round = 1; round <= ROUNDS; round++)); do
  step "round $round"
  perftest ib_write_bw
  perftest ib_send_bw
  LYRE_VERBS_MODE=1 reduce only
  LYRE_VERBS_MODE=2 reduce only
  reduce off
done
echo "$(rdma_counter completer_retry_err) retries"

step "stop"
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

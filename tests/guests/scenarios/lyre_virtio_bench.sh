# What an all-reduce takes over the daemon's virtio NIC and over the kernel's, beside none to two
# computing processes a guest. Times under emulation: only ratios of one run mean something.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh

ROUNDS=5
SIZES=(8 65536 1048576 4194304)
RESULTS=/tmp/results

# compare GROUP [OPTION...]: Lyre, then the kernel's transports, in one job.
compare() {
  local group=$1 meeting=(--listen "$ME_ADMIN:$RENDEZVOUS_PORT")
  shift
  [ "$GUEST" = a ] || meeting=(--join "$PEER_ADMIN:$RENDEZVOUS_PORT")
  meet "compare-$((++comparisons))"
  [ "$GUEST" = a ] || sleep 1
  as_job timeout "$ALLREDUCE_LIMIT_S" lyre allreduce --ranks 2 --local-ranks 1 "${meeting[@]}" \
    --host "host-$GUEST=/run/lyre/lyred.sock" --kernel-addr "host-$GUEST=$ME_ADMIN" \
    --timeout $((ALLREDUCE_LIMIT_S - 10)) --iterations 5 "${SIZES[@]/#/--bytes=}" "$@" --json \
    > /tmp/allreduce 2> /tmp/allreduce.err ||
    { cat /tmp/allreduce.err; fail "lyre allreduce, $group"; }
  [ "$GUEST" = b ] || cp /tmp/allreduce "$RESULTS/$comparisons.$group.json"
}

compute() {
  sh -c 'while :; do :; done' &
  computing+=($!)
}
stop_computing() {
  kill "${computing[@]}"
  computing=()
}

print_medians() {
  python3 - "$RESULTS" << 'PYTHON'
import collections, json, os, statistics, sys

lyre, ratios = (collections.defaultdict(list) for _ in range(2))
for name in os.listdir(sys.argv[1]):
    with open(os.path.join(sys.argv[1], name), encoding="utf-8") as f:
        report = json.load(f)
    group = name.split(".")[1]
    for i, bucket in enumerate(report["plugin"]["buckets"]):
        kernel = min(other["buckets"][i]["time_ns"] for other in report["kernel"])
        lyre[group, bucket["bytes"]].append(bucket["time_ns"] / 1000)
        ratios[group, bucket["bytes"]].append(kernel / bucket["time_ns"])
for (group, size), times in sorted(lyre.items()):
    one = sorted(ratios[group, size])
    print(f"{group:12} {size:9} B  {statistics.median(one):6.2f} times the kernel's speed "
          f"({one[0]:.2f} to {one[-1]:.2f}), {statistics.median(times):.0f} us")
PYTHON
}

bring_up_lyre 1
mkdir -p $RESULTS
comparisons=0
computing=()
for ((round = 1; round <= ROUNDS; round++)); do
  step "round $round"
  compare alone
  compare gap --rest-ms 10
  compute
  compare beside-one
  compute
  compare beside-two
  stop_computing
done
[ $GUEST = b ] || print_medians

step "stop"
meet compared
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

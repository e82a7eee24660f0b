# An RDMA device that goes away in mid-message: what it had under way goes over TCP, every byte once,
# and the data returns to it. First `ip link set down` of its network interface on one guest, then
# `rdma link delete` on the other. The device is on a macvlan: the ranks' rendezvous keeps the NIC.
# In mode 2, whose writes may come late.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh
. /host/scenarios/lyre_rdma.sh

# Of an all-reduce of 8 MiB, and more than frames about queue pairs: it is in mid-message.
PROGRESS_BYTES=300000
# While a process has it open, Linux 6.1 waits with the deletion.
DELETE_LIMIT_S=30
JOB_LIMIT_S=420

job_goes_on() {
  kill -0 $JOB_PID 2> /dev/null && return
  cat /tmp/allreduce
  fail "the job ended before $1"
}

# More than PROGRESS_BYTES since the call, by the counter COMMAND: expect_bytes COMMAND WHAT
expect_bytes() {
  local count=$1 what=$2 before
  before=$($count)
  has_grown() {
    job_goes_on "$what"
    [ "$($count)" -gt $((before + PROGRESS_BYTES)) ]
  }
  wait_for 90 "$what" has_grown
  step "$what"
}
expect_rdma() { expect_bytes rdma_bytes_max "data over RDMA $1"; }
expect_tcp() { expect_bytes tcp_bytes "data over TCP $1"; }

pull_link() {
  ip link set $MACVLAN down
  expect_tcp "while the link is down"
  ip link set $MACVLAN up
  expect_rdma "after the link is back"
}

is_deleted() { ! kill -0 $DELETE_PID 2> /dev/null; }

delete_device() {
  rdma link delete $RXE &
  DELETE_PID=$!
  wait_for $DELETE_LIMIT_S "the end of 'rdma link delete'" is_deleted
  wait $DELETE_PID || fail "rdma link delete"
  step "the device is deleted"
  expect_tcp "after the device is deleted"
  add_rdma $MACVLAN
  expect_rdma "over the new device"
}

# on GUEST ACTION: that guest does it, and the other one waits.
on() {
  step "$2 on $1"
  meet "$2-$1"
  [ $GUEST != $1 ] || $2
  meet "$2-$1-done" 200
  job_goes_on "$2 on $1 was done"
}

has_begun() { grep -q 'queue pair 0 is there' /tmp/allreduce; }

# On a busy host an emulated daemon may answer too late: the job fails on both guests, and begins
# anew.
start_job() {
  local attempt
  for attempt in 1 2 3 4 5; do
    meet "job-$attempt" 90
    LYRE_VERBS=auto LYRE_VERBS_MODE=2 ALLREDUCE_LIMIT_S=$JOB_LIMIT_S \
      allreduce_rank --bytes 8MiB --iterations 24 > /tmp/allreduce 2>&1 &
    JOB_PID=$!
    while kill -0 $JOB_PID 2> /dev/null; do
      ! has_begun || return 0
      sleep 1
    done
    cat /tmp/allreduce
  done
  fail "no attempt made a queue pair"
}

bring_up_lyre 1

step "rdma_rxe"
add_macvlan
add_rdma $MACVLAN
meet rdma-up

step "a job"
start_job
expect_rdma "at the start"
on a pull_link
on b delete_device

step "the end of the job"
wait $JOB_PID || { cat /tmp/allreduce; fail "lyre allreduce"; }
cat /tmp/allreduce
echo "$(grep -c 'queue pair 0 is lost' /tmp/allreduce) times a queue pair was lost," \
  "$(grep -c 'queue pair 0 is there' /tmp/allreduce) times one was made"
grep -q 'queue pair 0 is lost' /tmp/allreduce || fail "no queue pair was lost"
meet job-over $JOB_LIMIT_S

step "stop"
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

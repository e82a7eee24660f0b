# A NIC with two queues and a worker for each: sessions work on both workers, whichever guest opens
# them and whichever queue the NIC's hash selects, and no worker waits for the other.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh

# Enough that a hash leaves neither worker without any, whatever its key.
SESSIONS=32
SESSION_BYTES=262144
# What is under way fits a ring of 256 buffers: under more, QEMU 7.2, which spreads in software, was
# seen to leave a queue without packets for good, with free buffers in it (docs/dev/guests.md).
PERF_WINDOW=4KiB
BLOCK=4KiB
TRACED_S=10
LOADED_S=30
TRACED_BYTES=65536

both_have_sessions() {
  local on
  on=$(sessions | grep '^ESTABLISHED' | grep -o 'worker [01]' | sort | uniq -c)
  [ "$(wc -l <<< "$on")" -eq 2 ] && echo "$on"
}

# expect_growth COUNTER BEFORE LEAST: of each worker
expect_growth() {
  local before now worker grown
  read -ra before <<< "$2"
  read -ra now <<< "$(counter "$1")"
  for worker in 0 1; do
    grown=$((now[worker] - before[worker]))
    echo "worker $worker: $1 grew by $grown"
    [ $grown -ge "$3" ] || fail "that is less than $3"
  done
}

total() { echo $(($(counter "$1" | tr ' ' +))); }

start_load() {
  start_perf "$1" "$2" --sessions $SESSIONS --direction both --block $BLOCK "${@:3}"
}

# Sessions that guest $1 opens; some of them must move to the worker that received the answer.
spread_sessions() {
  local in out moved
  in=$(counter tcp_payload_in)
  out=$(counter tcp_payload_out)
  moved=$(total handed_over)
  start_load "$1-dials" "$1" --bytes $SESSION_BYTES --verify
  end_perf "$1-dials"
  expect_growth tcp_payload_in "$in" $SESSION_BYTES
  expect_growth tcp_payload_out "$out" $SESSION_BYTES
  [ $GUEST != "$1" ] || [ "$(total handed_over)" -gt "$moved" ] ||
    fail "all answers came to the worker that had asked"
}

worker_threads() {
  local pid
  pid=$(systemctl show -p MainPID --value lyred)
  grep -l '^lyre-core' /proc/"$pid"/task/*/comm | cut -d/ -f5
}

# Counts what a thread asks of the kernel in TRACED_S seconds: trace THREAD
trace() { timeout $TRACED_S strace -c -o "/tmp/calls.$1" -p "$1"; }

# Under load both ways, no worker may ask for a futex, whatever else it asks for.
trace_workers() {
  local threads thread traces=() in out
  start_load traced a --seconds $LOADED_S
  wait_for 30 "sessions on both workers" both_have_sessions
  threads=$(worker_threads)
  [ "$(wc -w <<< "$threads")" -eq 2 ] || fail "the workers are threads '$threads'"
  in=$(counter tcp_payload_in)
  out=$(counter tcp_payload_out)
  for thread in $threads; do
    trace "$thread" &
    traces+=($!)
  done
  wait "${traces[@]}"
  kill -0 $PERF_PID || fail "the load ended before the traces"
  expect_growth tcp_payload_in "$in" $TRACED_BYTES
  expect_growth tcp_payload_out "$out" $TRACED_BYTES
  for thread in $threads; do
    cat "/tmp/calls.$thread"
    grep -qE '^ *100\.00 .* total$' "/tmp/calls.$thread" || fail "no call of thread $thread was seen"
    ! grep -w futex "/tmp/calls.$thread" || fail "a worker waited in a futex"
  done
  end_perf traced
}

bring_up_lyre "0, 1"

step "sessions that a dials"
spread_sessions a

step "sessions that b dials"
spread_sessions b

step "what workers ask of the kernel"
trace_workers

step "stop"
stats
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

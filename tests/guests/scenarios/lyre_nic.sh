# A NIC whose cable is pulled and that is unplugged, under load: the sessions stay, every byte
# arrives, and the NIC works again when it is back.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh

# An emulated guest needs longer than a machine until a new NIC is bound.
MORE_CONFIG='[tcp]
user_timeout_ms = 120000'
PERF_LIMIT_S=200
SESSIONS=4
CABLE_LOAD_S=75
PLUG_LOAD_S=120
CABLE_OUT_S=3
PROGRESS_BYTES=100000

is_link() { [ "$(link)" = "$1" ]; }
nic_is_there() { [ -e "/sys/bus/pci/devices/$NIC" ]; }
nic_is_gone() { ! nic_is_there; }

# Local and remote address of each open session: the same before and after.
open_sessions() { sessions | grep '^ESTABLISHED' | grep -F "$PEER_WIRE" | cut -d' ' -f3-5 | sort; }
has_all_sessions() { [ "$(open_sessions | wc -l)" -eq $SESSIONS ]; }

# Bytes arrive again: that many more than at the call.
expect_progress() {
  local before
  before=$(counter tcp_payload_in)
  has_grown() { [ "$(counter tcp_payload_in)" -gt $((before + PROGRESS_BYTES)) ]; }
  wait_for 60 "traffic after $1" has_grown
}

pull_cable() {
  ask cable off
  wait_for 20 "a link that is down" is_link down
  sleep $CABLE_OUT_S
  ask cable on
  wait_for 20 "a link that is up" is_link up
}

unplug_nic() {
  ask unplug
  wait_for 60 "the removal of the NIC" nic_is_gone
  wait_for 20 "a port that is away" is_link away
  status
  ask plug
  wait_for 60 "the return of the NIC" nic_is_there
  bind "$NIC" "$DRIVER"
  wait_for 60 "a port that is up again" is_link up
}

# under_load NAME SECONDS ACTION: guest a, then guest b does it, while both send.
under_load() {
  local before now
  start_perf "$1" a --direction both --verify --sessions $SESSIONS --seconds "$2"
  wait_for 30 "all sessions" has_all_sessions
  before=$(open_sessions)
  expect_progress "the start"
  for guest in a b; do
    meet "$1-$guest" 120
    [ $GUEST != $guest ] || "$3"
    meet "$1-$guest-done" 120
    expect_progress "$3 of $guest"
  done
  now=$(open_sessions)
  kill -0 $PERF_PID || fail "the load ended before the last action"
  [ "$now" = "$before" ] || fail "sessions were lost: $before, now $now"
  end_perf "$1"
}

bring_up_lyre 1
wait_for 20 "a link" is_link up
journalctl -u lyred --no-pager -o cat | grep -F 'port wire'

step "the cable"
under_load cable $CABLE_LOAD_S pull_cable

step "hot plug"
under_load plug $PLUG_LOAD_S unplug_nic
stats

step "stop"
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

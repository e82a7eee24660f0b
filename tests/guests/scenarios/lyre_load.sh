# Sourced by scenarios that do something to a NIC while it carries sessions, after lyre_service.sh.

# An emulated guest needs longer than a machine until a new NIC is bound.
MORE_CONFIG='[tcp]
user_timeout_ms = 600000'
PERF_LIMIT_S=600
SESSIONS=4
PROGRESS_BYTES=100000

is_link() { [ "$(link)" = "$1" ]; }

# Local and remote address of each open session: there is no other one afterwards.
open_sessions() { sessions | grep '^ESTABLISHED' | grep -F "$PEER_WIRE" | cut -d' ' -f3-5 | sort; }
has_all_sessions() { [ "$(open_sessions | wc -l)" -eq $SESSIONS ]; }

# Bytes arrive again: that many more than at the call.
expect_progress() {
  local before
  before=$(counter tcp_payload_in)
  has_grown() { [ "$(counter tcp_payload_in)" -gt $((before + PROGRESS_BYTES)) ]; }
  wait_for 60 "traffic after $1" has_grown
}

# under_load NAME ACTION LOAD: guest a, then guest b does it, while both send. LOAD is an option of
# lyre perf: bytes for what a slow host does more slowly, too, seconds for what takes its own time.
under_load() {
  local before now
  start_perf "$1" a --direction both --verify --sessions $SESSIONS "$3"
  wait_for 30 "all sessions" has_all_sessions
  before=$(open_sessions)
  expect_progress "the start"
  for guest in a b; do
    meet "$1-$guest" 120
    [ $GUEST != $guest ] || "$2"
    meet "$1-$guest-done" 120
    expect_progress "$2 of $guest"
  done
  now=$(open_sessions)
  # A session that has sent its bytes is closed. One that was lost makes lyre perf fail.
  kill -0 $PERF_PID || fail "the load ended before the last action"
  [ -n "$now" ] || fail "the load ended before the last action"
  [ -z "$(comm -13 <(echo "$before") <(echo "$now"))" ] || fail "other sessions: $before, now $now"
  end_perf "$1"
}

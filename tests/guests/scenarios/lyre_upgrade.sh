# `systemctl reload lyred` and `lyre upgrade` while bytes flow: another process goes on with the NIC
# and all sessions. A process that fails after it has opened the NIC gives it back.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh
. /host/scenarios/lyre_load.sh

LOAD_S=75
FAILURE_LOAD_S=75

main_pid() { systemctl show -p MainPID --value lyred; }

expect_another_process() {
  [ "$(main_pid)" != "$1" ] || fail "process $1 is still the service's"
  [ "$(systemctl is-active lyred)" = active ] || fail "lyred is $(systemctl is-active lyred)"
  [ "$(systemctl show -p NRestarts --value lyred)" = 0 ] || fail "systemd has restarted lyred"
  wait_for 30 "a link" is_link up
}

upgrade_twice() {
  local before
  before=$(main_pid)
  systemctl reload lyred || fail "systemctl reload lyred"
  expect_another_process "$before"
  before=$(main_pid)
  lyre upgrade || fail "lyre upgrade"
  expect_another_process "$before"
}

# The new process finds that the sessions' address is not its own any more: it has opened the NIC.
fail_to_upgrade() {
  local before
  before=$(main_pid)
  sed -i.kept "s,$ME_WIRE/24,10.9.0.9/24," /etc/lyre/lyred.toml
  ! systemctl reload lyred || fail "an upgrade without the sessions' address"
  mv /etc/lyre/lyred.toml.kept /etc/lyre/lyred.toml
  journalctl -u lyred --no-pager -o cat | tail -n 5
  journalctl -u lyred --no-pager -o cat | grep -q "lyred: .*do not fit" ||
    fail "the journal does not say why"
  [ "$(main_pid)" = "$before" ] || fail "process $before is not the service's any more"
  wait_for 60 "a link" is_link up
}

bring_up_lyre 1
wait_for 20 "a link" is_link up

step "upgrade"
under_load upgrade $LOAD_S upgrade_twice
journalctl -u lyred --no-pager -o cat | grep -E 'without a turn|after a pause'

step "an upgrade that fails"
under_load failure $FAILURE_LOAD_S fail_to_upgrade
stats

step "stop"
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

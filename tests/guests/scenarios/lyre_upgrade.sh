# `systemctl reload lyred` (guest a) and `lyre upgrade` (guest b) while bytes flow: another process
# goes on with the NIC and all sessions. One that fails after it has opened the NIC gives it back
# (guest b).
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh
. /host/scenarios/lyre_load.sh

# An emulated NIC is slow to open, and the load must outlast three upgrades.
LOAD_S=300

main_pid() { systemctl show -p MainPID --value lyred; }
journal() { journalctl -u lyred --no-pager -o cat; }

upgrade() {
  local before
  before=$(main_pid)
  case $GUEST in
    a) systemctl reload lyred || fail "systemctl reload lyred" ;;
    b) lyre upgrade || fail "lyre upgrade" ;;
  esac
  [ "$(main_pid)" != "$before" ] || fail "process $before is still the service's"
  [ "$(systemctl is-active lyred)" = active ] || fail "lyred is $(systemctl is-active lyred)"
  [ "$(systemctl show -p NRestarts --value lyred)" = 0 ] || fail "systemd has restarted lyred"
  journal | grep 'after a pause'
}

# The new process finds that the sessions' address is not its own any more: it has opened the NIC.
fail_to_upgrade() {
  local before
  before=$(main_pid)
  sed -i.kept "s,$ME_WIRE/24,10.9.0.9/24," /etc/lyre/lyred.toml
  ! systemctl reload lyred || fail "an upgrade without the sessions' address"
  mv /etc/lyre/lyred.toml.kept /etc/lyre/lyred.toml
  journal | grep "^lyred: .*do not fit" || fail "the journal does not say why"
  [ "$(main_pid)" = "$before" ] || fail "process $before is not the service's any more"
}

upgrade_and_fail() {
  upgrade
  [ $GUEST = a ] || fail_to_upgrade
}

bring_up_lyre 1
wait_for 20 "a link" is_link up

step "upgrade"
under_load upgrade upgrade_and_fail --seconds=$LOAD_S
stats

step "stop"
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

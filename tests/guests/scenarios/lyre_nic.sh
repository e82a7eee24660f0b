# A NIC whose cable is pulled, that is announced and that is unplugged, under load: the sessions
# stay, every byte arrives, and the NIC works again when it is back.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh
. /host/scenarios/lyre_load.sh

CABLE_LOAD_BYTES=$((96 << 20))
ANNOUNCE_S=6
ANNOUNCE_LOAD_S=60
PLUG_LOAD_BYTES=$((112 << 20))
CABLE_OUT_S=3

# The host asks the guest a hundred times to announce itself, as after a migration. DPDK's thread
# does so on a virtio NIC, on the ring on which a worker sends.
announce() {
  ask announce
  sleep $ANNOUNCE_S
}

nic_is_there() { [ -e "/sys/bus/pci/devices/$NIC" ]; }
nic_is_gone() { ! nic_is_there; }

pull_cable() {
  ask cable off
  wait_for 20 "a link that is down" is_link down
  sleep $CABLE_OUT_S
  ask cable on
  wait_for 20 "a link that is up" is_link up
}

was_refused() {
  journalctl -u lyred --no-pager -o cat | grep -F "$NIC: cannot be opened" |
    grep -F 'Permission denied'
}

# The daemon runs as user lyre. The kernel makes the node of a NIC on vfio-pci for root, and udev
# gives it to group lyre: here not before the daemon has found it closed, and has to try again.
bind_before_udev() {
  udevadm control --stop-exec-queue
  bind "$NIC" "$DRIVER"
  wait_for 60 "an attempt to open a NIC of root's" was_refused
  udevadm control --start-exec-queue
}

bind_again() {
  case $DRIVER in
    vfio-pci) bind_before_udev ;;
    *) bind "$NIC" "$DRIVER" ;;
  esac
}

unplug_nic() {
  ask unplug
  wait_for 60 "the removal of the NIC" nic_is_gone
  wait_for 20 "a port that is away" is_link away
  status
  ask plug
  wait_for 60 "the return of the NIC" nic_is_there
  bind_again
  wait_for 60 "a port that is up again" is_link up
}

bring_up_lyre 1
wait_for 20 "a link" is_link up
journalctl -u lyred --no-pager -o cat | grep -F 'port wire'

step "the cable"
under_load cable pull_cable --bytes=$CABLE_LOAD_BYTES

step "announcements"
under_load announce announce --seconds=$ANNOUNCE_LOAD_S

step "hot plug"
under_load plug unplug_nic --bytes=$PLUG_LOAD_BYTES
stats

step "stop"
stop_lyred
give_nic_to_kernel
return_hugepages
meet end
step "done"

# A virtual function of an igb NIC, whose physical function stays with the kernel and is reset under
# load: the sessions stay, every byte arrives, and the function works again.
MODE=$1
. /host/scenarios/lib.sh
. /host/scenarios/lyre_cli.sh
. /host/scenarios/lyre_service.sh
. /host/scenarios/lyre_load.sh

RESET_LOAD_BYTES=$((48 << 20))
PF=$NIC
case $GUEST in
  a) VF_MAC=52:54:00:00:03:01 ;;
  b) VF_MAC=52:54:00:00:03:02 ;;
esac

# NIC is the virtual function from here on.
make_vf() {
  modprobe igb
  wait_for 20 "the interface of the physical function" has_netdev "$PF"
  ip link set "$(netdev_of "$PF")" up
  echo 1 > "/sys/bus/pci/devices/$PF/sriov_numvfs"
  NIC=$(basename "$(readlink "/sys/bus/pci/devices/$PF/virtfn0")")
  ip link set "$(netdev_of "$PF")" vf 0 mac $VF_MAC
}

# The kernel's driver resets its NIC when its MTU changes, and tells the virtual function.
reset_pf() {
  local mtu
  for mtu in 1600 1500; do
    ip link set "$(netdev_of "$PF")" mtu $mtu
    sleep 1
  done
  wait_for 60 "a link that is up" is_link up
}

make_vf
bring_up_lyre 1
wait_for 20 "a link" is_link up
journalctl -u lyred --no-pager -o cat | grep -F 'port wire'

step "reset of the physical function"
under_load reset reset_pf --bytes=$RESET_LOAD_BYTES
stats
journalctl -u lyred --no-pager -o short-monotonic | grep -F 'port wire'

step "stop"
stop_lyred
return_hugepages
meet end
step "done"

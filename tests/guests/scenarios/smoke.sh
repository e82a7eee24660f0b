# The guests alone: systemd runs, both wires work, the NIC changes hands and comes back.
MODE=$1
. /host/scenarios/lib.sh

step "systemd"
[ "$(ps -p 1 -o comm=)" = systemd ] || fail "process 1 is $(ps -p 1 -o comm=)"
is_started() { systemctl is-system-running | grep -xE 'running|degraded'; }
wait_for 60 "systemd's start-up" is_started
systemctl --failed --no-legend
[ -z "$(systemctl --failed --no-legend --plain)" ] || fail "units failed"

step "kernel network on both NICs"
bring_up_admin_network
dev=$(netdev_of $NIC)
ip addr add "$ME_WIRE/24" dev "$dev"
ip link set "$dev" up
meet wire-up
wait_for 20 "a ping of the peer over the wire" ping -q -c 1 -W 1 $PEER_WIRE
meet wire-proved
ip link set "$dev" down

step "hugepages"
reserve_hugepages 64

step "$DRIVER"
bind $NIC $DRIVER
[ -z "$(netdev_of $NIC)" ] || fail "the kernel still has the NIC"
case $MODE in
  uio) [ -c /dev/uio0 ] || fail "no /dev/uio0" ;;
  vfio)
    group=$(basename "$(readlink /sys/bus/pci/devices/$NIC/iommu_group)")
    [ -c "/dev/vfio/$group" ] || fail "no /dev/vfio/$group"
    ;;
esac

step "back to the kernel"
give_nic_to_kernel
return_hugepages
meet end
step "done"

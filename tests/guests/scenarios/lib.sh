# Sourced by every scenario. GUEST is "a" or "b", NIC the address of the NIC for DPDK; $1 of the
# scenario is "uio" or "vfio".
# Both guests run the same script; they meet at named points through the host's folder.

ADMIN_NIC=0000:00:11.0
HUGEPAGES=/sys/kernel/mm/hugepages/hugepages-2048kB
case $GUEST in
  a) PEER=b ME_WIRE=10.9.0.1 PEER_WIRE=10.9.0.2 ME_ADMIN=10.8.0.1 PEER_ADMIN=10.8.0.2 ;;
  b) PEER=a ME_WIRE=10.9.0.2 PEER_WIRE=10.9.0.1 ME_ADMIN=10.8.0.2 PEER_ADMIN=10.8.0.1 ;;
esac
case $MODE in
  uio) DRIVER=uio_pci_generic ;;
  vfio) DRIVER=vfio-pci ;;
  *) echo "unknown mode '$MODE'"; exit 2 ;;
esac

fail() { echo "FAIL: $*"; exit 1; }
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }

# Retries a command every half second: wait_for SECONDS WHAT COMMAND...
wait_for() {
  local seconds=$1 what=$2 tries
  shift 2
  for ((tries = 0; tries < seconds * 2; tries++)); do
    "$@" && return
    sleep 0.5
  done
  fail "$what did not happen within $seconds s"
}

# Both guests reach the point NAME, or this one fails: meet NAME [SECONDS]
meet() {
  touch "/host/at.$1.$GUEST"
  wait_for "${2:-60}" "the peer's arrival at '$1'" test -e "/host/at.$1.$PEER"
}

# What the host shall do to this guest's NIC: ask cable on|off, ask announce, ask unplug,
# ask plug
ask() {
  local answer=/host/answer.$GUEST
  rm -f "$answer"
  echo "$*" > "/host/part.$GUEST"
  mv "/host/part.$GUEST" "/host/ask.$GUEST"
  wait_for 90 "the host's answer to '$*'" test -e "$answer"
  [ "$(cat "$answer")" = "done" ] || fail "the host could not '$*': $(cat "$answer")"
}

driver_of() { basename "$(readlink "/sys/bus/pci/devices/$1/driver")"; }
# The network interface of a PCI device; nothing when the kernel has none. virtio devices have a
# bus of their own in between.
netdev_of() {
  local path
  for path in /sys/bus/pci/devices/"$1"/net/* /sys/bus/pci/devices/"$1"/virtio*/net/*; do
    [ ! -e "$path" ] || { basename "$path"; return; }
  done
}

hugepages_total() { cat $HUGEPAGES/nr_hugepages; }
hugepages_free() { cat $HUGEPAGES/free_hugepages; }

reserve_hugepages() {
  echo "$1" > $HUGEPAGES/nr_hugepages
  [ "$(hugepages_total)" -eq "$1" ] || fail "asked for $1 hugepages, got $(hugepages_total)"
}

return_hugepages() {
  [ "$(hugepages_free)" -eq "$(hugepages_total)" ] ||
    fail "$(($(hugepages_total) - $(hugepages_free))) hugepages are still in use"
  echo 0 > $HUGEPAGES/nr_hugepages
  [ "$(hugepages_total)" -eq 0 ] || fail "$(hugepages_total) hugepages stay reserved"
}

# bind ADDRESS DRIVER; an empty driver means the one that the kernel itself would choose
bind() {
  local device=/sys/bus/pci/devices/$1
  [ -z "$2" ] || modprobe "$2"
  [ ! -e "$device/driver" ] || echo "$1" > "$device/driver/unbind"
  echo "$2" > "$device/driver_override"
  echo "$1" > /sys/bus/pci/drivers_probe
  [ -e "$device/driver" ] || fail "no driver took $1"
  [ -z "$2" ] || [ "$(driver_of "$1")" = "$2" ] || fail "$1 went to $(driver_of "$1"), not $2"
}

give_nic_to_kernel() {
  bind "$NIC" ""
  wait_for 10 "the NIC's network interface" has_netdev "$NIC"
  settle_names
}
# udev gives the interface another name, and takes it down for that.
settle_names() { udevadm settle --timeout=60; }
has_netdev() { [ -n "$(netdev_of "$1")" ]; }

# Kernel addresses on the second NIC: rank bootstrap and the ordinary network live there.
bring_up_admin_network() {
  settle_names
  ip addr add "$ME_ADMIN/24" dev "$(netdev_of $ADMIN_NIC)"
  ip link set "$(netdev_of $ADMIN_NIC)" up
  meet admin-up
  wait_for 20 "a ping of the peer over the kernel's NIC" ping -q -c 1 -W 1 $PEER_ADMIN
}

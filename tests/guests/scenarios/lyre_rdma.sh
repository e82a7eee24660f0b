# Sourced by scenarios with RDMA, after lyre_service.sh: rdma_rxe (RoCE v2) over the kernel's NIC.

RXE=rxe0
# Of an RDMA packet's payload, with the NIC's MTU of 1500.
RXE_MTU_BYTES=1024
# A container of NCCL's allows the same: memory that a device reads is locked.
ulimit -l unlimited
# 4.3 s. An emulated host is late, and rdma_rxe of Linux 6.1 sends wrong bytes when it sends again
# while acknowledgements arrive (its requester and its completer read comp.psn at the same time).
export LYRE_VERBS_TIMEOUT=20 LYRE_VERBS_EMULATED=1

add_rdma() {
  modprobe rdma_rxe || fail "this kernel has no rdma_rxe"
  rdma link add $RXE type rxe netdev "$(netdev_of $ADMIN_NIC)" || fail "rdma link add"
  rdma link show $RXE/1 | grep -F 'state ACTIVE' || fail "$RXE is not active"
}

# rdma_counter NAME: of the RDMA device; 0 while there is none.
rdma_counter() { cat "/sys/class/infiniband/$RXE/ports/1/hw_counters/$1" 2> /dev/null || echo 0; }
rdma_bytes_max() { echo $((($(rdma_counter sent_pkts) + $(rdma_counter rcvd_pkts)) * RXE_MTU_BYTES)); }
# Bytes of payload that the daemon's sessions have sent and received.
tcp_bytes() { echo $(($(counter tcp_payload_in) + $(counter tcp_payload_out))); }

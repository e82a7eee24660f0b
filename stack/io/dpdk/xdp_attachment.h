#pragma once

#include <cstdint>

struct bpf_xdp_attach_opts;

/// They take the place of libbpf's functions of these names, for DPDK's AF_XDP driver and for
/// libxdp. A driver whose start fails calls bpf_xdp_detach() in any case (rte_eth_af_xdp.c, 22.11
/// to 26.07), and libbpf's function detaches whatever program the interface has: that of another
/// daemon, or of a firewall.
/// bpf_xdp_attach() attaches by a link of the kernel (5.9), which ends with this process, however
/// that ends. bpf_xdp_detach() detaches only what this process has attached.
/// Owner: the link is this process's, until bpf_xdp_detach(). `program` stays the caller's.
/// Thread: the control thread.
/// Fails: a negative errno, as libbpf's functions; -EBUSY the interface has a program.
extern "C" int bpf_xdp_attach(int interface_index, int program, uint32_t flags,
                              const bpf_xdp_attach_opts* options);
extern "C" int bpf_xdp_detach(int interface_index, uint32_t flags,
                              const bpf_xdp_attach_opts* options);

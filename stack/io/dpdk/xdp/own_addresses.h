#pragma once

/// The table that lyred fills in the XDP program of a port, before the kernel loads it.
/// Language: C, because the program is C for the BPF machine. Shape: read-only data of the program.

enum { LYRE_OWN_ADDRESSES_MAX = 16 };

/// Marks the table in the object file.
#define LYRE_OWN_ADDRESSES_MARK "lyre:own-address"

/// The halves of an IPv6 address as it lies in a packet; IPv4 is ::ffff:a.b.c.d (RFC 4291 2.5.5.2).
struct lyre_own_address {
  unsigned long long high;
  unsigned long long low;
};

struct lyre_own_addresses {
  char mark[16];
  unsigned long long count;
  struct lyre_own_address list[LYRE_OWN_ADDRESSES_MAX];
};

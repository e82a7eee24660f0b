#pragma once

#include <cstdint>
#include <string>

#include "stack/channel/capture.h"
#include "tools/lyre/options.h"

namespace lyre::tools {

struct PcapOptions {
  std::string port;        ///< empty: the ports are listed
  std::string filter;      ///< of libpcap; empty: none
  std::string file = "-";  ///< "-": standard output
  uint32_t snap_bytes = channel::kSnapBytesMax;
  uint64_t packets_max = 0;  ///< 0: no limit
  double duration_s = 0;     ///< 0: no limit
};

/// `lyre pcap`: writes the packets of a port as pcapng until SIGINT, SIGTERM or a limit, and at
/// last a line to standard error that says how many were captured and lost. A second signal ends
/// the process at once. Fails: throws Failure.
void run_pcap(const GlobalOptions& globals, const PcapOptions& options);

}  // namespace lyre::tools

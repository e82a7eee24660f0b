#include "tools/lyre/pcap.h"

#include <memory>
#include <string>
#include <vector>

#include "tools/lyre/pcap/run.h"
#include "tools/lyre/value_checks.h"

namespace lyre::tools {
namespace {

constexpr double kSecondsMax = 7 * 86400;

struct Words {
  PcapOptions options;
  std::vector<std::string> filter;
};

}  // namespace

void add_pcap(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand(
      "pcap", "Write the packets of a port as pcapng; without a port, list the ports");
  auto words = std::make_shared<Words>();
  PcapOptions& options = words->options;
  command->add_option("PORT", options.port, "Its name, as `lyre ports` shows it");
  command->add_option("FILTER", words->filter,
                      "Only packets that this filter of libpcap takes, such as tcp port 5201");
  command->add_option("-w,--write", options.file, "To this file; -: to standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("-s,--snaplen", options.snap_bytes, "At most so many bytes of each packet")
      ->transform(size_between(1, channel::kSnapBytesMax))
      ->type_name("BYTES")
      ->capture_default_str();
  command->add_option("-c,--count", options.packets_max, "End after so many packets")
      ->check(count_between(1, UINT64_MAX))
      ->type_name("PACKETS");
  command->add_option("--duration", options.duration_s, "End after so many seconds")
      ->check(seconds_between(0.1, kSecondsMax))
      ->type_name("SECONDS");
  command->callback([&globals, words] {
    words->options.filter = CLI::detail::join(words->filter, " ");
    run_pcap(globals, words->options);
  });
}

}  // namespace lyre::tools

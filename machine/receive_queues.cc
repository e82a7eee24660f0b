#include "machine/receive_queues.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

namespace lyre::machine {
namespace {

/// Asks about one interface.
class Ethtool {
 public:
  /// REQUIRES: interface.size() < IFNAMSIZ.
  explicit Ethtool(const std::string& interface)
      : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    interface.copy(request_.ifr_name, IFNAMSIZ - 1);
  }
  ~Ethtool() {
    if (fd_ >= 0) ::close(fd_);
  }
  Ethtool(const Ethtool&) = delete;
  Ethtool& operator=(const Ethtool&) = delete;

  /// `command`: a struct of linux/ethtool.h, which gets the answer. False: not answered.
  bool ask(void* command) {
    request_.ifr_data = static_cast<char*>(command);
    return ::ioctl(fd_, SIOCETHTOOL, &request_) == 0;
  }

 private:
  const int fd_;
  ifreq request_{};
};

/// The entries follow the struct. Asked for none, the kernel says how many there are.
std::vector<uint32_t> rss_table_of(Ethtool& ethtool) {
  ethtool_rxfh_indir head{};
  head.cmd = ETHTOOL_GRXFHINDIR;
  if (!ethtool.ask(&head)) return {};
  constexpr size_t kHeadWords = sizeof head / sizeof(uint32_t);
  std::vector<uint32_t> answer{head.cmd, head.size};
  answer.resize(kHeadWords + head.size);
  if (!ethtool.ask(answer.data())) return {};
  answer.erase(answer.begin(), answer.begin() + kHeadWords);
  return answer;
}

uint32_t flow_rules_of(Ethtool& ethtool) {
  ethtool_rxnfc command{};
  command.cmd = ETHTOOL_GRXCLSRLCNT;
  return ethtool.ask(&command) ? command.rule_cnt : 0;
}

}  // namespace

std::optional<ReceiveQueues> receive_queues(const std::string& interface) {
  if (interface.empty() || interface.size() >= IFNAMSIZ) return std::nullopt;
  Ethtool ethtool(interface);
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  if (!ethtool.ask(&channels)) return std::nullopt;
  return ReceiveQueues{.combined = channels.combined_count,
                       .receive_only = channels.rx_count,
                       .rss_table = rss_table_of(ethtool),
                       .flow_rules = flow_rules_of(ethtool)};
}

std::vector<uint32_t> queues_beside(const ReceiveQueues& queues, uint32_t first, uint32_t count) {
  if (queues.flow_rules > 0) return {};
  std::set<uint32_t> used(queues.rss_table.begin(), queues.rss_table.end());
  if (used.empty()) {
    for (uint32_t i = 0; i < queues.combined + queues.receive_only; ++i) used.insert(i);
  }
  std::erase_if(used, [=](uint32_t queue) { return queue >= first && queue - first < count; });
  return {used.begin(), used.end()};
}

}  // namespace lyre::machine

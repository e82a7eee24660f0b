#include "daemon/config/config_domains.h"

#include <algorithm>
#include <string>

namespace lyre {
namespace {

constexpr uint32_t kAdministratorMode = 0600;

class DomainCheck {
 public:
  DomainCheck(Config& config, const Complain& complain) : config_(config), complain_(complain) {}

  void run() {
    for (size_t i = 0; i < config_.domains.size(); ++i) {
      check_distinct(i);
      find_ports(config_.domains[i]);
    }
    check_socket();
    check_lending();
  }

 private:
  void find_ports(DomainConfig& domain) {
    if (domain.port_names.empty()) return;
    domain.ports = 0;
    for (const std::string& name : domain.port_names) {
      const auto is_it = [&](const PortConfig& port) { return port.name == name; };
      const auto port = std::find_if(config_.ports.begin(), config_.ports.end(), is_it);
      if (port == config_.ports.end()) {
        complain_(domain.lines.of("ports"), "domain.ports",
                  "'" + name + "' is not a port, allowed: " + port_names(config_));
      } else {
        domain.ports |= 1u << (port - config_.ports.begin());
      }
    }
  }

  void check_distinct(size_t index) {
    const DomainConfig& domain = config_.domains[index];
    const auto taken = [&](std::string_view key, const std::string& by) {
      complain_(domain.lines.of(key), "domain." + std::string(key),
                "of '" + domain.name + "' is taken by " + by + ", allowed: another one");
    };
    if (domain.socket_path == config_.socket_path) taken("socket", "daemon.socket");
    for (size_t i = 0; i < index; ++i) {
      const DomainConfig& earlier = config_.domains[i];
      const std::string by = "the domain '" + earlier.name + "'";
      if (earlier.name == domain.name) taken("name", by);
      if (earlier.socket_path == domain.socket_path) taken("socket", by);
    }
  }

  /// The shipped file has both keys with their defaults: only other values are an error.
  void check_socket() {
    if (config_.domains.empty()) return;
    if (!config_.socket_group.empty() && config_.socket_group != kDefaultSocketGroup) {
      complain_(config_.socket_group_line, "daemon.socket_group",
                "'" + config_.socket_group +
                    "' is not used with [[domain]], whose administrator's socket is the daemon's "
                    "user's, allowed: without this key");
    }
    if (config_.socket_mode != kDefaultSocketMode && config_.socket_mode != kAdministratorMode) {
      complain_(config_.socket_mode_line, "daemon.socket_mode",
                "is not used with [[domain]], whose administrator's socket has mode 0600, "
                "allowed: without this key");
    }
  }

  void check_lending() {
    const bool is_given = config_.lend_uid >= 0;
    if (config_.lend != Lend::kUid) {
      if (!is_given) return;
      return complain_(config_.lend_uid_line, "clients.uid",
                       "is used with lend = \"uid\" only, allowed: that, or -1");
    }
    if (!is_given) {
      return complain_(config_.lend_line, "clients.uid",
                       "missing for lend = \"uid\", allowed: the uid that may read what all "
                       "clients receive, or another lend");
    }
    if (config_.domains.empty() || lending_of(config_) == Lend::kUid) return;
    complain_(config_.lend_line, "clients.lend",
              "\"uid\" needs one domain with all ports, allowed: that, or \"none\"");
  }

  Config& config_;
  const Complain& complain_;
};

}  // namespace

std::string port_names(const Config& config) {
  std::string out;
  for (const PortConfig& port : config.ports) out += (out.empty() ? "" : ", ") + port.name;
  return out;
}

void complete_domains(Config& config, const Complain& complain) {
  DomainCheck(config, complain).run();
  config.has_domains = !config.domains.empty();
  if (config.has_domains) {
    config.socket_group.clear();
    config.socket_mode = kAdministratorMode;
  } else {
    config.domains.push_back({.name = "default",
                              .socket_path = config.socket_path,
                              .socket_group = config.socket_group,
                              .socket_mode = config.socket_mode});
  }
}

Lend lending_of(const Config& config) {
  const uint32_t all_ports = (uint32_t{1} << config.ports.size()) - 1;
  const bool has_all =
      config.domains.size() == 1 && (config.domains[0].ports & all_ports) == all_ports;
  return has_all ? config.lend : Lend::kNone;
}

std::vector<std::string> socket_paths(const Config& config) {
  std::vector<std::string> paths{config.socket_path};
  if (!config.has_domains) return paths;
  for (const DomainConfig& domain : config.domains) paths.push_back(domain.socket_path);
  return paths;
}

std::vector<std::string> socket_groups(const Config& config) {
  std::vector<std::string> groups;
  for (const DomainConfig& domain : config.domains) groups.push_back(domain.socket_group);
  return groups;
}

}  // namespace lyre

#include "daemon/config/config_domains.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace lyre {
namespace {

Error refusal(const Config& config, uint32_t line, std::string_view key, const std::string& text) {
  return Error{EINVAL, complaint(config.file, line, key, text)};
}

Status find_ports(const Config& config, DomainConfig& domain) {
  if (domain.port_names.empty()) return Ok{};
  domain.ports = 0;
  for (const std::string& name : domain.port_names) {
    const auto is_it = [&](const PortConfig& port) { return port.name == name; };
    const auto port = std::find_if(config.ports.begin(), config.ports.end(), is_it);
    if (port == config.ports.end()) {
      std::string names;
      for (const PortConfig& known : config.ports)
        names += (names.empty() ? "" : ", ") + known.name;
      return refusal(config, domain.line, "domain.ports",
                     "'" + name + "' is not a port, allowed: " + names);
    }
    domain.ports |= 1u << (port - config.ports.begin());
  }
  return Ok{};
}

Status check_distinct(const Config& config, size_t index) {
  const DomainConfig& domain = config.domains[index];
  const auto taken = [&](std::string_view key, const std::string& by) {
    return refusal(config, domain.line, key,
                   "of '" + domain.name + "' is taken by " + by + ", allowed: another one");
  };
  if (domain.socket_path == config.socket_path) return taken("domain.socket", "daemon.socket");
  for (size_t i = 0; i < index; ++i) {
    const DomainConfig& earlier = config.domains[i];
    const std::string by = "the domain '" + earlier.name + "'";
    if (earlier.name == domain.name) return taken("domain.name", by);
    if (earlier.socket_path == domain.socket_path) return taken("domain.socket", by);
  }
  return Ok{};
}

Status check_lending(const Config& config) {
  if (config.lend != Lend::kUid || config.lend_uid >= 0) return Ok{};
  return refusal(config, 0, "clients.uid",
                 "missing for lend = \"uid\", allowed: the uid that may read what all clients "
                 "receive, or another lend");
}

}  // namespace

Status complete_domains(Config& config) {
  config.has_domains = !config.domains.empty();
  if (!config.has_domains) {
    config.domains.push_back({.name = "default",
                              .socket_path = config.socket_path,
                              .socket_group = config.socket_group,
                              .socket_mode = config.socket_mode});
  } else {
    config.socket_group.clear();
    config.socket_mode = 0600;
    for (size_t i = 0; i < config.domains.size(); ++i) {
      if (Status distinct = check_distinct(config, i); !distinct.ok()) return distinct;
      if (Status found = find_ports(config, config.domains[i]); !found.ok()) return found;
    }
  }
  return check_lending(config);
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

#include "daemon/config/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "daemon/config/config_domains.h"
#include "daemon/config/config_keys.h"
#include "daemon/config/config_routes.h"
#include "stack/base/page_size.h"
#include "stack/channel/control.h"
#include "stack/channel/ring.h"
#include "stack/worker/worker.h"

namespace lyre {
namespace {

constexpr size_t kListItemsMax = 256;
/// Receive slots that the smallest rings of a NIC hold, and those of a port beside the kernel.
constexpr uint32_t kRingSlotsMin = 128;
constexpr uint32_t kXdpRingSlots = 2048;
/// Permission to write: connecting to a socket needs it (unix(7)).
constexpr int64_t kAnyMayWrite = 0222;
constexpr uint32_t kPortCountMax = std::min(worker::kPortsMax, channel::kPortsMax);

uint32_t line_of(const toml::node& node) { return node.source().begin.line; }

std::string shown(const toml::node& node) {
  std::ostringstream out;
  if (const auto* text = node.as_string()) {
    out << text->get();
  } else {
    node.visit([&](const auto& value) { out << value; });
  }
  std::string text = out.str();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return "'" + text + "'";
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

/// The value, or what is wrong with it ("is not ..."); allowed_text() completes the sentence.
struct Checked {
  std::optional<KeyValue> value;
  std::string wrong;
  const toml::node* culprit = nullptr;  ///< of a list, the item that is wrong
};

Checked check_number(const Key& key, const toml::node& node) {
  const auto value = node.value_exact<int64_t>();
  if (!value) return {{}, "is not an integer"};
  if (*value < key.min || *value > key.max) return {{}, "is out of range"};
  return {*value, {}};
}

Checked check_choice(const Key& key, const std::string& text) {
  std::string_view rest = key.choices;
  for (int64_t position = 0; !rest.empty(); ++position) {
    const size_t bar = rest.find('|');
    if (rest.substr(0, bar) == text) return {position, {}};
    rest = bar == std::string_view::npos ? "" : rest.substr(bar + 1);
  }
  return {{}, "is not one of the choices"};
}

Checked check_mode(const Key& key, const std::string& text) {
  const bool is_octal =
      !text.empty() && text.size() <= 4 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
  if (!is_octal) return {{}, "is not a file mode"};
  const auto mode = static_cast<int64_t>(std::stoul(text, nullptr, 8));
  if (mode > key.max) return {{}, "is not a file mode"};
  if ((mode & kAnyMayWrite) == 0) return {{}, "lets nobody connect"};
  return {mode, {}};
}

Checked check_text(const Key& key, const std::string& text) {
  const auto bytes = static_cast<int64_t>(text.size());
  if (bytes < key.min || bytes > key.max) return {{}, "has the wrong length"};
  const bool is_printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!is_printable) return {{}, "is not printable"};
  if (key.type == KeyType::kPath && text.front() != '/') return {{}, "is not an absolute path"};
  const bool is_name = key.type == KeyType::kName || key.type == KeyType::kNames;
  if (is_name && !std::all_of(text.begin(), text.end(), is_name_char)) {
    return {{}, "is not a name"};
  }
  return {text, {}};
}

/// Calls `add(text)` for the node, or for each item when it is a list. `add` returns what is wrong
/// with the item; the first error ends the loop.
template <typename Add>
Checked check_each(const toml::node& node, size_t count_max, Add add) {
  const toml::array* list = node.as_array();
  if (list != nullptr && list->size() > count_max) return {{}, "has too many addresses"};
  if (list != nullptr && list->empty()) return {{}, "has no address"};
  const size_t count = list == nullptr ? 1 : list->size();
  for (size_t i = 0; i < count; ++i) {
    const toml::node& item = list == nullptr ? node : *list->get(i);
    const auto text = item.value_exact<std::string>();
    const std::string wrong = text ? add(*text) : "is not a string";
    if (!wrong.empty()) return {{}, wrong, &item};
  }
  return {true, {}};
}

Checked check_address(const std::string& text) {
  const auto address = parse_address(text);
  if (!address) return {{}, "is not an address"};
  if (!is_unicast(*address)) return {{}, "is not the address of a host"};
  return {*address, {}};
}

Checked check_gateways(const toml::node& node) {
  std::vector<IpAddress> gateways;
  if (node.value_exact<std::string>() == "") return {std::move(gateways), {}};
  Checked all = check_each(node, 2, [&](const std::string& text) -> std::string {
    const Checked one = check_address(text);
    if (!one.value) return one.wrong;
    const auto& address = std::get<IpAddress>(*one.value);
    if (!gateways.empty() && gateways[0].is_v4() == address.is_v4()) {
      return "is a second one of its family";
    }
    gateways.push_back(address);
    return "";
  });
  if (all.value) all.value = std::move(gateways);
  return all;
}

Checked check_interfaces(const toml::node& node) {
  std::vector<Cidr> addresses;
  Checked all = check_each(node, kConfiguredAddressesMax, [&](const std::string& text) {
    const auto cidr = parse_cidr(text);
    if (!cidr) return "is not an address with a prefix";
    if (!is_host_address(*cidr)) return "is not the address of a host";
    const auto is_it = [&](const Cidr& other) { return other.address == cidr->address; };
    if (std::any_of(addresses.begin(), addresses.end(), is_it)) return "is there twice";
    addresses.push_back(*cidr);
    return "";
  });
  if (all.value) all.value = std::move(addresses);
  return all;
}

Checked check_network(const std::string& text) {
  const auto cidr = parse_cidr(text);
  if (!cidr) return {{}, "is not an address with a prefix"};
  if (!is_network(*cidr)) return {{}, "has bits set behind the prefix"};
  return {*cidr, {}};
}

Checked check_cores(const Key& key, const toml::node& node) {
  std::vector<uint32_t> cores;
  if (node.value_exact<std::string>() == "auto") return {std::move(cores), {}};
  const toml::array* list = node.as_array();
  if (list == nullptr) return {{}, "is not a list of core numbers"};
  if (list->empty()) return {{}, "names no core"};
  if (list->size() > kCoresMax) return {{}, "has too many cores"};
  for (const toml::node& item : *list) {
    const auto core = item.value_exact<int64_t>();
    if (!core || *core < key.min || *core > key.max) {
      return {{}, "is not a list of core numbers"};
    }
    const auto number = static_cast<uint32_t>(*core);
    if (std::find(cores.begin(), cores.end(), number) != cores.end()) {
      return {{}, "names core " + std::to_string(number) + " twice"};
    }
    cores.push_back(number);
  }
  return {std::move(cores), {}};
}

/// Calls `add(item)` for each item of a list, which returns what is wrong with it.
template <typename Add>
Checked check_list(const toml::node& node, Add add) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return {{}, "is not a list"};
  if (list->size() > kListItemsMax) return {{}, "has too many items"};
  for (const toml::node& item : *list) {
    const std::string wrong = add(item);
    if (!wrong.empty()) return {{}, wrong, &item};
  }
  return {true, {}};
}

Checked check_numbers(const Key& key, const toml::node& node) {
  std::vector<uint32_t> numbers;
  Checked all = check_list(node, [&](const toml::node& item) {
    const Checked one = check_number(key, item);
    if (one.value) numbers.push_back(static_cast<uint32_t>(std::get<int64_t>(*one.value)));
    return one.wrong;
  });
  if (all.value) all.value = std::move(numbers);
  return all;
}

/// A list of what check_text() or check_network() makes of each string.
template <typename Item, typename Check>
Checked check_strings(const toml::node& node, Check check) {
  std::vector<Item> items;
  Checked all = check_list(node, [&](const toml::node& item) -> std::string {
    const auto text = item.value_exact<std::string>();
    if (!text) return "is not a string";
    const Checked one = check(*text);
    if (one.value) items.push_back(std::get<Item>(*one.value));
    return one.wrong;
  });
  if (all.value) all.value = std::move(items);
  return all;
}

Checked check_value(const Key& key, const toml::node& node) {
  if (key.type == KeyType::kNumbers) return check_numbers(key, node);
  if (key.type == KeyType::kNetworks) return check_strings<Cidr>(node, check_network);
  if (key.type == KeyType::kNames) {
    return check_strings<std::string>(
        node, [&](const std::string& text) { return check_text(key, text); });
  }
  if (key.type == KeyType::kNumber) return check_number(key, node);
  if (key.type == KeyType::kCores) return check_cores(key, node);
  if (key.type == KeyType::kInterface) return check_interfaces(node);
  if (key.type == KeyType::kGateways) return check_gateways(node);
  if (key.type == KeyType::kFlag) {
    const auto value = node.value_exact<bool>();
    if (!value) return {{}, "is neither true nor false"};
    return {*value, {}};
  }
  const auto text = node.value_exact<std::string>();
  if (!text) return {{}, "is not a string"};
  switch (key.type) {
    case KeyType::kChoice:
      return check_choice(key, *text);
    case KeyType::kMode:
      return check_mode(key, *text);
    case KeyType::kAddress:
      return check_address(*text);
    case KeyType::kNetwork:
      return check_network(*text);
    default:
      return check_text(key, *text);
  }
}

/// Reads one file. Every check_* and read_* adds what is wrong to `errors_`, and goes on.
class Reader {
 public:
  explicit Reader(const std::string& file) { config_.file = file; }

  ReadConfig read(const toml::table& root) {
    check_sections(root);
    for (const char* section : {"daemon", "workers", "memory", "tcp", "clients"}) {
      read_plain(root, section);
    }
    read_ports(root);
    read_routes(root);
    read_domains(root);
    check_ports(root.contains("port"));
    // What these compare has to be there.
    if (errors_.empty()) check_slots();
    if (errors_.empty()) check_networks(config_, complaining());
    if (errors_.empty()) complete_routes(config_, complaining());
    if (errors_.empty()) complete_domains(config_, complaining());
    return {std::move(config_), std::move(errors_)};
  }

 private:
  void complain(uint32_t line, std::string_view key, std::string_view text) {
    if (!errors_.empty()) errors_ += '\n';
    errors_ += complaint(config_.file, line, key, text);
  }

  void check_sections(const toml::table& root) {
    std::string allowed;
    for (const Key& key : config_keys()) {
      const std::string name(key.section);
      if (allowed.find("[" + name + "]") != std::string::npos) continue;
      const bool is_array = name == "port" || name == "route" || name == "domain";
      allowed += (allowed.empty() ? "" : ", ") + (is_array ? "[[" + name + "]]" : "[" + name + "]");
    }
    for (const auto& [name, node] : root) {
      if (allowed.find("[" + std::string(name.str()) + "]") == std::string::npos) {
        complain(line_of(node), name.str(), "unknown section or key, allowed: " + allowed);
      }
    }
  }

  void read_plain(const toml::table& root, std::string_view section) {
    static const toml::table kEmpty;
    const toml::node* node = root.get(section);
    if (node == nullptr) return read_section(kEmpty, section, 0);
    if (!node->is_table()) {
      return complain(line_of(*node), section,
                      "is not a section, allowed: [" + std::string(section) + "]");
    }
    read_section(*node->as_table(), section, line_of(*node));
  }

  template <typename Entry>
  void read_array(const toml::table& root, std::string_view section, std::vector<Entry>& entries,
                  size_t count_max) {
    const toml::node* node = root.get(section);
    if (node == nullptr) return;
    const std::string brackets = "[[" + std::string(section) + "]]";
    const toml::array* list = node->as_array();
    if (list == nullptr || !list->is_array_of_tables()) {
      return complain(line_of(*node), section, "is not an array of tables, allowed: " + brackets);
    }
    for (const toml::node& item : *list) {
      if (entries.size() == count_max) {
        return complain(line_of(item), section,
                        "too many, allowed: " + std::to_string(count_max) + " " + brackets);
      }
      entries.emplace_back().lines.first = line_of(item);
      read_section(*item.as_table(), section, line_of(item));
    }
  }

  void read_ports(const toml::table& root) {
    read_array(root, "port", config_.ports, kPortCountMax);
  }
  void read_routes(const toml::table& root) {
    read_array(root, "route", config_.routes, worker::kRoutesMax);
  }

  void read_domains(const toml::table& root) {
    read_array(root, "domain", config_.domains, kDomainsMax);
  }

  void read_section(const toml::table& table, std::string_view section, uint32_t line) {
    std::string allowed;
    for (const Key& key : config_keys()) {
      if (key.section != section) continue;
      allowed += (allowed.empty() ? "" : ", ") + std::string(key.name);
      read_key(table, key, line);
    }
    for (const auto& [name, node] : table) {
      const auto is_it = [&, wanted = name.str()](const Key& key) {
        return key.section == section && key.name == wanted;
      };
      const auto keys = config_keys();
      if (std::none_of(keys.begin(), keys.end(), is_it)) {
        complain(line_of(node), std::string(section) + "." + std::string(name.str()),
                 "unknown key, allowed: " + allowed);
      }
    }
  }

  void read_key(const toml::table& table, const Key& key, uint32_t section_line) {
    const std::string full_name = std::string(key.section) + "." + std::string(key.name);
    const toml::node* node = table.get(key.name);
    if (node == nullptr && key.default_toml.empty()) {
      return complain(section_line, full_name, "missing, allowed: " + allowed_text(key));
    }
    toml::table by_default;
    if (node == nullptr) {
      by_default = toml::parse("value = " + std::string(key.default_toml));
      node = by_default.get("value");
    } else {
      note_line(key, full_name, line_of(*node));
    }
    Checked checked = check_value(key, *node);
    if (!checked.value) {
      const toml::node& culprit = checked.culprit == nullptr ? *node : *checked.culprit;
      return complain(line_of(culprit), full_name,
                      shown(culprit) + " " + checked.wrong + ", allowed: " + allowed_text(key));
    }
    key.store(config_, *checked.value);
  }

  /// Of keys that are compared with the machine or with other keys.
  void note_line(const Key& key, std::string_view full_name, uint32_t line) {
    if (key.section == "port") config_.ports.back().lines.keys[key.name] = line;
    if (key.section == "route") config_.routes.back().lines.keys[key.name] = line;
    if (key.section == "domain") config_.domains.back().lines.keys[key.name] = line;
    if (full_name == "workers.cores") config_.cores_line = line;
    if (full_name == "memory.rx_slots") config_.rx_slots_line = line;
    if (full_name == "memory.hugepages") config_.hugepages_line = line;
    if (full_name == "daemon.socket") config_.socket_line = line;
    if (full_name == "daemon.socket_group") config_.socket_group_line = line;
    if (full_name == "daemon.socket_mode") config_.socket_mode_line = line;
    if (full_name == "clients.lend") config_.lend_line = line;
    if (full_name == "clients.uid") config_.lend_uid_line = line;
  }

  void check_ports(bool is_any_named) {
    if (!is_any_named) {
      return complain(0, "port",
                      "no port is configured, allowed: 1 to " + std::to_string(kPortCountMax) +
                          " [[port]] sections");
    }
    for (size_t i = 0; i < config_.ports.size(); ++i) {
      check_super_packets(config_.ports[i]);
      check_beside_large_slots(config_.ports[i]);
      for (size_t earlier = 0; earlier < i; ++earlier) {
        check_distinct(config_.ports[earlier], config_.ports[i]);
      }
    }
  }

  /// A packet socket takes super-packets without the key: one that an earlier release needed stays.
  void check_super_packets(const PortConfig& port) {
    const bool is_memif = port.device.starts_with("net_memif");
    const bool may_have_key = is_packet_socket(port) || !port.device.starts_with("net_");
    if (!port.has_super_packets || may_have_key || (is_memif && port.is_trusted)) return;
    complain(port.lines.of("super_packets"), "port.super_packets",
             "of '" + port.name +
                 (is_memif ? "' is true without port.trusted, allowed: with trusted = true"
                           : "' is true for a device that is neither memif nor NIC, allowed: "
                             "false"));
  }

  static bool is_packet_socket(const PortConfig& port) {
    return port.device.starts_with("net_af_packet");
  }

  /// The kernel takes no buffers of AF_XDP that are larger than a page (xdp_umem_reg()), and with
  /// super-packets all buffers of a worker are of 16 KiB and their headers.
  void check_beside_large_slots(const PortConfig& port) {
    constexpr size_t kLargeSlotBytes = 16 << 10;
    if (!port.device.starts_with("net_af_xdp") || system_page_bytes() > kLargeSlotBytes) return;
    const auto is_large = [&port](const PortConfig& other) {
      return &other != &port && (other.has_super_packets || is_packet_socket(other));
    };
    if (std::none_of(config_.ports.begin(), config_.ports.end(), is_large)) return;
    complain(
        port.lines.of("device"), "port.device",
        "'" + port.device + "' of '" + port.name +
            "' is beside a port that takes packets of 64 KiB, allowed: a daemon of its own, or "
            "net_af_packet");
  }

  /// What is known without the devices; PortSet looks at what the rings hold.
  void check_slots() {
    uint32_t ring_slots = 0;
    for (const PortConfig& port : config_.ports) {
      ring_slots += port.device.starts_with("net_af_xdp") ? kXdpRingSlots : kRingSlotsMin;
    }
    if (ring_slots <= ring_slots_max(config_.rx_slots)) return;
    complain(config_.rx_slots_line, "memory.rx_slots", too_few_slots(config_, ring_slots));
  }

  void check_distinct(const PortConfig& first, const PortConfig& second) {
    const auto taken = [&](std::string_view key) {
      return complain(second.lines.of(key), "port." + std::string(key),
                      "of '" + second.name + "' is taken by the port '" + first.name +
                          "' in line " + std::to_string(first.lines.of(key)) +
                          ", allowed: another one");
    };
    if (!first.name.empty() && first.name == second.name) return taken("name");
    for (const Cidr& address : second.addresses) {
      if (has_address(first, address.address)) return taken("address");
    }
    const std::string device = first.device.substr(0, first.device.find(','));
    if (device.empty()) return;
    if (device == second.device.substr(0, second.device.find(','))) return taken("device");
  }

  Complain complaining() {
    return [this](uint32_t line, std::string_view key, const std::string& text) {
      complain(line, key, text);
    };
  }

  Config config_;
  std::string errors_;  ///< one a line
};

}  // namespace

std::string complaint(const std::string& file, uint32_t line, std::string_view key,
                      std::string_view text) {
  std::string out = file + ":";
  if (line != 0) out += std::to_string(line) + ":";
  return out + " " + std::string(key) + ": " + std::string(text);
}

std::string too_few_slots(const Config& config, uint32_t ring_slots) {
  uint32_t needed = ring_slots;
  while (ring_slots_max(needed) < ring_slots) ++needed;
  return std::to_string(config.rx_slots) + " are too few: the receive rings of the ports hold " +
         std::to_string(ring_slots) + ", allowed: " + std::to_string(needed) + " and more";
}

namespace {

ReadConfig read_text(std::string_view text, const std::string& name) {
  try {
    return Reader(name).read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return {{},
            complaint(name, error.source().begin.line, "not TOML",
                      std::string(error.description()) + ", allowed: TOML 1.0")};
  }
}

Result<Config> if_right(ReadConfig read) {
  if (read.errors.empty()) return std::move(read.config);
  return Error{EINVAL, std::move(read.errors)};
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& name) {
  return if_right(read_text(text, name));
}

uint64_t context_bytes_min(uint32_t worker_count, uint64_t copy_bytes) {
  return channel::ContextLayout::of(worker_count, system_page_bytes(), copy_bytes).total_bytes;
}

Result<Config> load_config(const std::string& path) { return if_right(read_config(path)); }

ReadConfig read_config(const std::string& path) {
  errno = 0;
  std::ifstream in(path);
  std::ostringstream text;
  // Not by iterators: a folder is opened, and they throw when they read it.
  text << in.rdbuf();
  if (!in.is_open() || in.bad() || errno != 0) {
    const int code = errno;
    return {{}, path + ": cannot be read: " + std::strerror(code)};
  }
  return read_text(text.str(), path);
}

}  // namespace lyre

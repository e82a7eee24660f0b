#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "stack/base/interface_address.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/siphash.h"
#include "stack/channel/abi.h"
#include "stack/channel/control.h"

/// The daemon's own records for the daemon that goes on in its place, beside those of its workers
/// (stack/worker/handover_records.h): fields in the order of the format, and descriptors in the
/// order in which the comments name them. A field that a later version adds comes last in its list,
/// behind has_since(). The first of them are read by releases that do not know their version:
/// kDaemon, kPort, kSocket and kPrepared grow at their ends only, and a reader passes over what it
/// does not know.
namespace lyre {

inline constexpr uint16_t kOfferVersion = 5;           ///< of kDaemon, kPort, kSocket, kPrepared
inline constexpr uint16_t kDaemonHandoverVersion = 5;  ///< of all other records below
inline constexpr uint32_t kNoDomain = UINT32_MAX;

/// A string of at most 4 KiB.
template <typename Fields, typename T>
void list_text(Fields& fields, T& text) {
  using Byte = std::conditional_t<std::is_const_v<T>, const uint8_t, uint8_t>;
  auto bytes = static_cast<uint16_t>(text.size());
  fields.number(bytes, uint16_t{0}, uint16_t{4096});
  if constexpr (!std::is_const_v<T>) text.resize(bytes);
  fields.bytes({reinterpret_cast<Byte*>(text.data()), bytes});
}

/// At most 255 bytes.
template <typename Fields, typename T>
void list_short_bytes(Fields& fields, T& bytes) {
  auto count = static_cast<uint8_t>(bytes.size());
  fields.number(count, uint8_t{0}, uint8_t{UINT8_MAX});
  if constexpr (!std::is_const_v<T>) bytes.resize(count);
  fields.bytes(bytes);
}

/// A version for each record::Kind, by its number; 0, and what is not listed: no such records.
using KindVersions = std::vector<uint16_t>;

template <typename Fields, typename T>
void list_versions(Fields& fields, T& versions) {
  auto count = static_cast<uint16_t>(versions.size());
  fields.number(count, uint16_t{0}, uint16_t{1024});
  if constexpr (!std::is_const_v<T>) versions.resize(count);
  for (auto& version : versions) fields.number(version);
}

/// Of each port, some of its addresses.
template <typename Fields, typename T>
void list_addresses(Fields& fields, T& ports) {
  const auto list_count = [&fields](auto& list, size_t most) {
    using List = std::remove_reference_t<decltype(list)>;
    auto count = static_cast<uint8_t>(list.size());
    fields.number(count, uint8_t{0}, static_cast<uint8_t>(most));
    if constexpr (!std::is_const_v<List>) list.resize(count);
  };
  list_count(ports, channel::kPortsMax);
  for (auto& addresses : ports) {
    list_count(addresses, kPortAddressesMax);
    for (auto& address : addresses) fields.address(address);
  }
}

/// What both daemons must have alike.
struct DaemonRecord {
  std::string release;
  uint32_t worker_count = 0;
  uint32_t port_count = 0;
  uint32_t socket_count = 0;
  bool uses_physical_addresses = false;  ///< since version 2; version 1 handed no NIC over
  /// Since version 5: the least that a reader has to know of each kind that this daemon writes.
  KindVersions least_versions{};
};

template <typename Fields, typename T>
void list_daemon(Fields& fields, T& record) {
  list_text(fields, record.release);
  fields.number(record.worker_count, 1u, channel::kWorkersMax);
  fields.number(record.port_count);
  fields.number(record.socket_count);
  if (fields.has_since(2)) fields.flag(record.uses_physical_addresses);
  if (fields.has_since(5)) list_versions(fields, record.least_versions);
}

/// The daemon that comes.
struct PreparedRecord {
  std::string release;
  KindVersions newest_versions;  ///< that it reads
};

template <typename Fields, typename T>
void list_prepared(Fields& fields, T& record) {
  list_text(fields, record.release);
  list_versions(fields, record.newest_versions);
}

struct PortRecord {
  std::string device;
  MacAddress mac;  ///< peers know the port by it
  /// Since version 4; empty: none is known. With another one, the NIC gives most connections to
  /// other workers.
  std::vector<uint8_t> rss_key;

  bool operator==(const PortRecord&) const = default;
};

template <typename Fields, typename T>
void list_port(Fields& fields, T& record) {
  list_text(fields, record.device);
  fields.bytes(record.mac.bytes);
  if (fields.has_since(4)) list_short_bytes(fields, record.rss_key);
}

struct SocketRecord {
  std::string path;
  std::string domain;
};

template <typename Fields, typename T>
void list_socket(Fields& fields, T& record) {
  list_text(fields, record.path);
  list_text(fields, record.domain);
}

/// With descriptors: the socket of the memory helper, if there is one; each control socket, which
/// listens.
struct RegistryRecord {
  uint64_t next_generation = 1;
  uint32_t region_uses = 0;
  SipKey secret;  ///< WorkerConfig::secret
  uint32_t client_count = 0;
  uint32_t region_count = 0;
  uint32_t attached_count = 0;
  bool has_helper = false;
  /// By port: those of IPv6 that no other host has. Since version 3; before that none is known.
  std::vector<std::vector<IpAddress>> verified_addresses{};
  uint32_t left_count = 0;  ///< of kLeftMemory, which follow the clients. Since version 5
};

template <typename Fields, typename T>
void list_registry(Fields& fields, T& record) {
  fields.number(record.next_generation, uint64_t{1}, UINT64_MAX);
  fields.number(record.region_uses);
  fields.number(record.secret.k0);
  fields.number(record.secret.k1);
  fields.number(record.client_count);
  fields.number(record.region_count);
  fields.number(record.attached_count);
  fields.flag(record.has_helper);
  if (fields.has_since(3)) list_addresses(fields, record.verified_addresses);
  if (fields.has_since(5)) fields.number(record.left_count);
}

/// With descriptors: memory, both ends of the socket that wakes the client (reading, writing), the
/// bell of each worker.
struct ClientRecord {
  uint32_t context = 0;
  uint64_t generation = 0;
  int32_t pid = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::string label;
  uint16_t abi_version = 0;
  uint32_t domain = kNoDomain;        ///< DomainRules::index
  uint64_t registered_bytes_max = 0;  ///< of the domain as it was; not used any more
  uint64_t arena_bytes = 0;
  uint64_t copy_bytes = 0;
  uint64_t page_bytes = 0;
  bool is_attached = false;
  uint64_t held_by = 0;  ///< detaching: bit n: worker n has not let go of it
};

template <typename Fields, typename T>
void list_client(Fields& fields, T& record) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 40;
  fields.number(record.context);
  fields.number(record.generation);
  fields.number(record.pid);
  fields.number(record.uid);
  fields.number(record.gid);
  list_text(fields, record.label);
  fields.number(record.abi_version);
  fields.number(record.domain);
  fields.number(record.registered_bytes_max);
  fields.number(record.arena_bytes, uint64_t{1}, kBytesMax);
  fields.number(record.copy_bytes, uint64_t{0}, kBytesMax);
  fields.number(record.page_bytes, uint64_t{4096}, kBytesMax);
  fields.flag(record.is_attached);
  fields.number(record.held_by);
}

/// Memory of a context that is over, which counts until its client has closed it. With a
/// descriptor: the memory. Since version 5.
struct LeftMemoryRecord {
  uint64_t user = 0;  ///< DomainRules::user_of()
  uint32_t context = 0;
  uint32_t domain = kNoDomain;  ///< DomainRules::index
  uint64_t bytes = 0;
  uint64_t counted_bytes = 0;  ///< for the user
};

template <typename Fields, typename T>
void list_left_memory(Fields& fields, T& record) {
  fields.number(record.user);
  fields.number(record.context);
  fields.number(record.domain);
  fields.number(record.bytes);
  fields.number(record.counted_bytes);
}

/// With a descriptor: the file.
struct RegionRecord {
  uint32_t name = 0;
  uint32_t context = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t page_bytes = 0;
  bool is_leaving = false;
  uint64_t pending = 0;  ///< leaving: bit n: worker n has not let go of it
};

template <typename Fields, typename T>
void list_region(Fields& fields, T& record) {
  fields.number(record.name);
  fields.number(record.context);
  fields.number(record.offset);
  fields.number(record.bytes);
  fields.number(record.page_bytes, uint64_t{4096}, UINT64_MAX);
  fields.flag(record.is_leaving);
  fields.number(record.pending);
}

/// With descriptors: the connection, then a pidfd of the client if there is one.
struct AttachedRecord {
  uint32_t socket = 0;  ///< which control socket
  uint32_t context = 0;
  std::string label;
  bool has_process = false;
  uint16_t control_version = 4;  ///< since version 5; before that there was no other one
};

template <typename Fields, typename T>
void list_attached(Fields& fields, T& record) {
  fields.number(record.socket);
  fields.number(record.context);
  list_text(fields, record.label);
  fields.flag(record.has_process);
  if (fields.has_since(5)) fields.number(record.control_version);
}

}  // namespace lyre

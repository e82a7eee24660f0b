#include "stack/io/dpdk/xdp_program.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/xdp/own_addresses.h"
#include "stack/io/dpdk/xdp_attachment.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint8_t kObject[] = {
#include "own_addresses_object.inc"
};
constexpr std::string_view kMark = LYRE_OWN_ADDRESSES_MARK;
constexpr std::string_view kArgument = "xdp_prog";

lyre_own_addresses table_of(std::span<const IpAddress> own) {
  lyre_own_addresses table = {};
  std::copy(kMark.begin(), kMark.end(), table.mark);
  table.count = own.size();
  for (size_t i = 0; i < own.size(); ++i) {
    static_assert(sizeof table.list[i] == sizeof own[i].bytes);
    std::memcpy(&table.list[i], own[i].bytes.data(), sizeof table.list[i]);
  }
  return table;
}

bool write_all(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

/// An attempt would fail as well, and the driver would not say why.
Status check_has_no_program(const DeviceArgs& args, uint32_t interface_index) {
  const uint32_t id = xdp_program_of(interface_index);
  if (id == 0) return Ok{};
  const std::string interface(args.value_of("iface"));
  return Error{EEXIST, args.name() + ": " + interface + " has the XDP program " +
                           std::to_string(id) +
                           " of another lyred, or of another product (ip link set dev " +
                           interface + " xdp off removes one that no process holds)"};
}

}  // namespace

Result<XdpProgram> XdpProgram::make(std::span<const IpAddress> own) {
  if (own.size() > LYRE_OWN_ADDRESSES_MAX) {
    return Error{E2BIG, "a port beside the kernel has at most " +
                            std::to_string(LYRE_OWN_ADDRESSES_MAX) + " addresses"};
  }
  std::vector<uint8_t> object(std::begin(kObject), std::end(kObject));
  const auto place = std::search(object.begin(), object.end(), kMark.begin(), kMark.end());
  const lyre_own_addresses table = table_of(own);
  if (object.end() - place < static_cast<ptrdiff_t>(sizeof table)) {
    return Error{ENOEXEC, "the XDP program has no table of addresses"};
  }
  std::memcpy(&*place, &table, sizeof table);
  XdpProgram program(::memfd_create("lyre-xdp", MFD_CLOEXEC));
  if (program.fd_ < 0 || !write_all(program.fd_, object)) {
    return Error{errno, std::string("memory for the XDP program: ") + std::strerror(errno)};
  }
  return program;
}

XdpProgram::XdpProgram(XdpProgram&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      interface_index_(std::exchange(other.interface_index_, 0)) {}

XdpProgram& XdpProgram::operator=(XdpProgram&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(interface_index_, other.interface_index_);
  return *this;
}

XdpProgram::~XdpProgram() {
  if (fd_ >= 0) ::close(fd_);
}

std::string XdpProgram::path() const {
  return fd_ < 0 ? std::string() : "/proc/self/fd/" + std::to_string(fd_);
}

Status XdpProgram::prepare(DeviceArgs& args, std::span<const IpAddress> own) {
  interface_index_ = 0;
  if (args.driver() != "net_af_xdp") return Ok{};
  if (!own.empty() && !args.has(kArgument)) {
    auto program = make(own);
    if (!program) return Error{program.error().code, args.name() + ": " + program.error().text};
    *this = std::move(*program);
    args.set_default(kArgument, path());
  }
  if (!args.has(kArgument)) return Ok{};  // libxdp attaches one that several processes may use
  const uint32_t index = interface_index(std::string(args.value_of("iface")));
  if (Status done = check_has_no_program(args, index); !done) return done;
  interface_index_ = index;
  return Ok{};
}

void XdpProgram::detach() {
  const auto index = static_cast<int>(std::exchange(interface_index_, 0));
  if (index != 0) static_cast<void>(bpf_xdp_detach(index, 0, nullptr));
}

}  // namespace lyre::io::dpdk

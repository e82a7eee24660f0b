#include "stack/io/dpdk/xdp_program.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "stack/io/dpdk/xdp/own_addresses.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint8_t kObject[] = {
#include "own_addresses_object.inc"
};
constexpr std::string_view kMark = LYRE_OWN_ADDRESSES_MARK;

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

XdpProgram::XdpProgram(XdpProgram&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

XdpProgram& XdpProgram::operator=(XdpProgram&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

XdpProgram::~XdpProgram() {
  if (fd_ >= 0) ::close(fd_);
}

std::string XdpProgram::path() const {
  return fd_ < 0 ? std::string() : "/proc/self/fd/" + std::to_string(fd_);
}

}  // namespace lyre::io::dpdk

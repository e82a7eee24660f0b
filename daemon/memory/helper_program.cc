#include "daemon/memory/helper_program.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "daemon/base/errno_error.h"
#include "daemon/base/owned_fd.h"
#include "daemon/host/capabilities.h"

namespace lyre {
namespace {

Status check_program(const OwnedFd& file, const std::string& program) {
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return errno_error(program);
  const bool is_roots = found.st_uid == 0 && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (is_roots || effective_capabilities() == 0) return Ok{};
  return Error{EPERM, program + ": not a file that only root may write"};
}

}  // namespace

/// By a descriptor: another file may take the place of the one that was checked.
Error execute_mapping_helper(const std::string& program) {
  if (program.empty()) return {ENOTSUP, "its program is not known"};
  const OwnedFd file(::open(program.c_str(), O_PATH | O_CLOEXEC));
  if (!file.is_open()) return errno_error(program);
  if (const Status allowed = check_program(file, program); !allowed.ok()) return allowed.error();
  const InheritedCapabilities inherited;
  if (!inherited.are_all()) return {EPERM, "its capabilities cannot be passed on"};
  char name[] = "lyred";
  std::string argument = kMappingHelperArgument;
  char* const words[] = {name, argument.data(), nullptr};
  ::fcntl(kMappingHelperDescriptor, F_SETFD, 0);
  ::fexecve(file.get(), words, ::environ);
  Error why = errno_error(program);
  ::fcntl(kMappingHelperDescriptor, F_SETFD, FD_CLOEXEC);
  return why;
}

}  // namespace lyre

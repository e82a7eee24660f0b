#pragma once

#include <string>

#include "machine/files.h"

namespace lyre::machine {

/// Of the kernel that runs, as uname(2) gives it: "6.1.0-57-cloud-amd64".
std::string running_release();

/// /lib/modules/RELEASE of the kernel that runs.
std::string modules_folder();

/// The package that brings the headers of each new kernel of this one's kind, such as
/// "linux-headers-cloud-amd64"; empty: the release names no kind, as that of a kernel built here.
std::string headers_package(const std::string& release);

/// The newest kernel with an index in `folder`, which is /lib/modules; empty: none is newer than
/// `release`.
std::string newer_kernel(const std::string& release, const std::string& folder);

/// False when modprobe would not find the driver among the modules in `folder`, which is that of
/// one kernel. True where that folder has no index.
bool is_module_in(const std::string& folder, const std::string& driver);

/// False when a driver of a bus is neither in the kernel nor among the modules in `folder`, so that
/// modprobe would not find it. True where that folder has no index.
bool is_driver_available(const std::string& driver, const Roots& roots, const std::string& folder);

/// The package of the running kernel with the modules that Ubuntu keeps apart, which images of
/// clouds come without: "linux-modules-extra-$(uname -r)", for a shell. Empty: /etc/os-release
/// names neither Ubuntu nor a system like it.
std::string extra_modules_package(const Roots& roots);

}  // namespace lyre::machine

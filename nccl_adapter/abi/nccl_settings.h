#pragma once

#include <strings.h>

#include <cstdlib>

/// Variables of NCCL that the plugin, the command line and the emulator read. A value is null where
/// the variable is not set. Thread: any, as getenv(3).
namespace lyre::nccl_abi {

/// What NCCL adds to the number of communicators that use a net plugin; it unloads a plugin at 0.
/// Where it is not set, 2.26 and 2.27 add 1, and later versions nothing. When 2.28.3 to 2.29.7
/// unload a plugin they lose its name, and the next communicator of the process looks for
/// libnccl-net.so. From 2.30.3 on the name stays.
inline constexpr const char* kPluginUsersSetting = "NCCL_NET_PLUGIN_REF_COUNT";

/// Whether NCCL 2.28 and later keep the plugin after their last communicator, by the value of
/// kPluginUsersSetting. NCCL reads numbers so.
inline bool keeps_plugin(const char* value) {
  return value != nullptr && std::strtoll(value, nullptr, 0) > 0;
}

/// Whether this value of NCCL_NET names Lyre, in upper or lower case: NCCL then uses no other
/// network.
inline bool names_lyre(const char* value) {
  return value != nullptr && ::strcasecmp(value, "Lyre") == 0;
}

}  // namespace lyre::nccl_abi

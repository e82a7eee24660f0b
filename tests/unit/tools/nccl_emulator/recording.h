#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/tools/nccl_emulator/recording_plugin.h"

namespace lyre::nccl_emulator {

/// A path that the build gives to this test program.
inline std::string path_from(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr) ADD_FAILURE() << variable << " is not set";
  return path != nullptr ? path : "";
}

inline std::string recording_plugin() { return path_from("LYRE_TEST_RECORDING_PLUGIN"); }
inline std::string kernel_plugin() { return path_from("LYRE_TEST_KERNEL_PLUGIN"); }

/// The calls that the recording plugin got in this process. It must be loaded.
inline RecordedCalls& recorded_calls() {
  void* library = ::dlopen(recording_plugin().c_str(), RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(library, nullptr);
  const auto get = reinterpret_cast<GetRecordedCalls>(::dlsym(library, "lyre_recorded_calls"));
  ::dlclose(library);
  return *get();
}

}  // namespace lyre::nccl_emulator

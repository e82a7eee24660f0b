#pragma once

#include <dlfcn.h>

#include <memory>

namespace lyre::nccl_emulator {

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};
/// One reference to a loaded library.
using Library = std::unique_ptr<void, CloseLibrary>;

}  // namespace lyre::nccl_emulator

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace lyre::nccl_adapter {

class Comm;
class SendComm;

/// The comms that connect() began and has not given out. NCCL calls it without a pause until it has
/// the comm, each time with the same handle, in which a note names it. Where NCCL aborts meanwhile
/// it calls no more and closes nothing.
/// Thread: under the instance's lock. The comms are borrowed: forget() them before they end.
class Connecting {
 public:
  enum class Fate {
    kUnknown,    ///< no comm of that note was here
    kAbandoned,  ///< NCCL did not ask for it for kConnectAbandonedNs
    kLost,       ///< it was of an instance before, whose daemon was given up
  };

  /// A random number: notes of different processes must not meet in a handle that was copied.
  explicit Connecting(uint64_t last_note) : last_note_(last_note) {}

  /// Returns the note, which is not 0.
  uint64_t add(SendComm* comm, int64_t now_ns);
  /// connect() was called with that note; one that is not here is ignored.
  void note_asked(uint64_t note, int64_t now_ns);
  /// nullptr: not here, and fate() says why.
  SendComm* find(uint64_t note) const;
  Fate fate(uint64_t note) const;
  /// Those that NCCL has abandoned are not here any more. The caller closes them.
  std::vector<SendComm*> take_abandoned(int64_t now_ns);
  /// It was given out, or it ends. Comms that are not here are ignored.
  void forget(const Comm* comm);
  /// Those of an instance that this one replaces cannot go on: their peers have a comm of each, and
  /// would give out that one for another of the same handle.
  void replace(const Connecting& lost);

 private:
  struct Entry {
    SendComm* comm;
    int64_t asked_ns;
  };

  uint64_t last_note_;
  std::unordered_map<uint64_t, Entry> entries_;  ///< by note
  std::unordered_map<uint64_t, Fate> gone_;      ///< the same
};

}  // namespace lyre::nccl_adapter

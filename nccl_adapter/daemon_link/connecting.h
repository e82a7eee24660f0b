#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace lyre::nccl_adapter {

class Comm;
class SendComm;

/// The comms that connect() began and has not given out. NCCL calls it until it has the comm, each
/// time with the same handle, in which a note names it. Where NCCL aborts meanwhile it calls no
/// more and closes nothing.
/// Thread: under the instance's lock. The comms are borrowed: forget() them before they end.
class Connecting {
 public:
  /// A random number: notes of different processes must not meet in a handle that was copied, nor
  /// those of an instance and the one that replaces it.
  explicit Connecting(uint64_t last_note) : last_note_(last_note) {}

  /// Returns the note, which is not 0.
  uint64_t add(SendComm* comm, int64_t now_ns);
  /// connect() was called with that note; one that is not here is ignored.
  void note_asked(uint64_t note, int64_t now_ns);
  /// The same for all: there was no daemon, and a call could not have had the comm.
  void note_all_asked(int64_t now_ns);
  /// nullptr: not here.
  SendComm* find(uint64_t note) const;
  /// Those that were not asked for during kConnectAbandonedNs are not here any more. The caller
  /// closes them.
  std::vector<SendComm*> take_abandoned(int64_t now_ns);
  /// It was given out, or it ends. Comms that are not here are ignored.
  void forget(const Comm* comm);

 private:
  struct Entry {
    SendComm* comm;
    int64_t asked_ns;
  };

  uint64_t last_note_;
  std::unordered_map<uint64_t, Entry> entries_;  ///< by note
};

}  // namespace lyre::nccl_adapter

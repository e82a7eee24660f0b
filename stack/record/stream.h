#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stack/record/fields.h"

namespace lyre::record {

/// What a record is of. The numbers are part of the format: none is used again.
enum class Kind : uint16_t {
  kNone = 0,
  kWorker = 1,      ///< the first of a worker
  kContext = 2,     ///< a client
  kLoan = 3,        ///< a receive slot that the client of the last kContext has
  kCopyBlock = 4,   ///< a block of its copy area that it has
  kLeaving = 5,     ///< registered memory that it deregistered and that is still in use
  kListener = 6,    ///< a listener; all contexts come before
  kSession = 7,     ///< a session; its connection follows
  kPiece = 8,       ///< a piece of client memory in its send queue
  kConnection = 9,  ///< TCP's state of it
  kSent = 10,       ///< a range that was sent and not acknowledged
  kUndo = 11,       ///< what would undo the last reduction of its window
  kReceived = 12,   ///< received text that its client has not got
  kEnd = 13,        ///< the last of a worker
  kDaemon = 14,     ///< what both daemons must have alike; kPort and kSocket follow
  kPort = 15,       ///< a port
  kSocket = 16,     ///< a control socket
  kRegistry = 17,  ///< the control thread's state: the records of clients follow, then the workers'
  kClient = 18,    ///< a client's context: its memory and bells
  kRegion = 19,    ///< registered memory of a client
  kAttached = 20,  ///< a client's connection to a control socket
  kPrepared = 21,  ///< what the daemon that comes is, and which records it reads
  kLeftMemory = 22,  ///< memory of an ended context that its client still has open
  kFailedOpen = 23,  ///< an open of the last kContext that failed, which its client was not told
};
inline constexpr uint16_t kKindsEnd = 24;  ///< one more than the last

struct Header {
  Kind kind = Kind::kNone;
  uint16_t version = 0;
  uint32_t bytes = 0;  ///< of the fields
};
inline constexpr size_t kHeaderBytes = 8;
/// Longer records are refused.
inline constexpr uint32_t kRecordBytesMax = 1u << 20;

/// Writes records, one after the other. Thread: one.
class Writer {
 public:
  /// Writes one record: `list(fields)` appends its fields.
  template <typename List>
  void add(Kind kind, uint16_t version, List list) {
    const size_t header = begin(kind, version);
    FieldWriter fields(bytes_);
    list(fields);
    end(header);
  }
  /// Appends all records of another writer.
  void append(const Writer& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  size_t begin(Kind kind, uint16_t version);
  void end(size_t header);

  std::vector<uint8_t> bytes_;
};

/// Takes unvalidated records, one after the other. Owner: *borrows* the bytes. Thread:
/// one.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> in) : in_(in) {}

  /// The kind of the next record; kNone: there is none, or its header is not right.
  Kind next() const;
  /// Takes the next record, if it is one of this kind whose version is at least 1 and at most
  /// `newest`, and if `list(fields)` finds every field allowed and takes all of them.
  template <typename List>
  bool take(Kind kind, uint16_t newest, List list) {
    const std::optional<Header> header = look();
    return header && header->version <= newest && take_known(kind, newest, list);
  }
  /// As take(), of any version from 1: what versions after `newest` append is passed over.
  template <typename List>
  bool take_known(Kind kind, uint16_t newest, List list) {
    const std::optional<Header> header = look();
    if (!header || header->kind != kind || header->version == 0) return false;
    FieldReader fields(in_.subspan(kHeaderBytes, header->bytes), header->version);
    list(fields);
    if (header->version > newest) fields.rest();
    if (!fields.is_complete()) return false;
    in_ = in_.subspan(kHeaderBytes + header->bytes);
    return true;
  }
  /// Passes over the next record. False: there is none, or its version is later than `newest`.
  bool try_skip(uint16_t newest);
  bool is_at_end() const { return in_.empty(); }

 private:
  std::optional<Header> look() const;

  std::span<const uint8_t> in_;
};

}  // namespace lyre::record

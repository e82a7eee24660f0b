// Bytes that an unauthenticated peer sends to the NCCL plugin's port: a hello, then frames for both
// directions.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "nccl_adapter/comm/receive_queue.h"
#include "nccl_adapter/comm/send_queue.h"
#include "nccl_adapter/protocol/hello.h"
#include "nccl_adapter/protocol/queue_pair_terms.h"

namespace {

using namespace lyre::nccl_adapter;

constexpr size_t kPlaceBytes = 4096;

void check(bool holds) {
  if (!holds) std::abort();
}

// What was taken is what is sent back.
void judge_terms(std::span<const uint8_t> in) {
  QueuePairTerms terms;
  QueuePairTerms same;
  if (!decode(in, &terms)) return;
  std::array<uint8_t, kQueuePairTermsBytes> bytes;
  encode(terms, bytes);
  check(decode(bytes, &same) && same == terms);
  check(terms.slots >= kSlotsMin && terms.slots <= kSlotsMax);
}

// Receive buffers of exact size on the heap, so that ASan detects one byte too many; some are
// posted late. The bytes arrive over two streams, in parts of `piece_bytes`.
void receive(std::span<const uint8_t> in, size_t piece_bytes) {
  ReceiveQueue queue(nullptr);
  std::array<FrameProgress, 2> readers;
  std::vector<std::vector<uint8_t>> places;
  std::vector<Request*> requests;
  size_t pieces = 0;
  bool is_over = false;
  while (!in.empty() && !is_over) {
    if (pieces % 4 == 2 && places.size() < 8) {
      places.emplace_back(kPlaceBytes >> places.size() % 4);
      requests.push_back(queue.post(places.back().data(), places.back().size()));
      if (queue.refused()) break;
    }
    std::span<const uint8_t> piece = in.first(std::min(in.size(), piece_bytes));
    in = in.subspan(piece.size());
    FrameProgress& reader = readers[pieces++ / 3 % 2];
    ReceiveQueue::Verdict verdict = queue.take(&reader, &piece);
    for (; verdict == ReceiveQueue::Verdict::kOther; verdict = queue.take(&reader, &piece)) {
      check(reader.small_payload.size() == reader.frames.header().bytes);
      judge_terms(reader.small_payload);
    }
    is_over = verdict != ReceiveQueue::Verdict::kMore;
    check(is_over || piece.empty());
    if (queue.has_news()) (void)queue.make_grant();
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    check(requests[i]->moved_bytes <= requests[i]->bytes);
    check(requests[i]->bytes <= places[i].size());
  }
}

// Grants that arrive at a sender with outstanding messages.
void grant(std::span<const uint8_t> in) {
  SendQueue queue(nullptr);
  const std::vector<uint8_t> data(100'000);
  for (int i = 0; i < 3; ++i) queue.post(data.data(), data.size());
  FrameReader reader;
  while (!in.empty() && reader.state() == FrameReader::State::kHeader) {
    if (!reader.take_header(&in)) continue;
    const FrameHeader& header = reader.header();
    if (header.type != FrameType::kGrant || !queue.on_grant(header.message, header.offset)) return;
    reader.finish();
    Chunk chunk;
    while (queue.next_chunk(2, kChunkBytesMax, &chunk)) {
      check(chunk.data >= data.data() && chunk.header.bytes <= data.size());
      check(chunk.data + chunk.header.bytes <= data.data() + data.size());
      queue.chunk_sent(chunk);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes < 2) return 0;
  const std::span<const uint8_t> in(data + 2, bytes - 2);
  switch (data[0] % 3) {
    case 0: {
      Hello hello;
      if (read_hello(in, &hello) == HelloState::kComplete)
        check(hello.host.size() < kHostNameBytes + 1);
      break;
    }
    case 1:
      receive(in, data[1] + size_t{1});
      break;
    default:
      grant(in);
      break;
  }
  return 0;
}

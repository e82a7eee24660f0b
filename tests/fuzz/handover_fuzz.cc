#include <cstdint>
#include <vector>

#include "tests/support/handover_bed.h"

// The records of a worker, changed as the input says: three bytes for each change, two of them the
// place. A successor refuses them, or is a worker whose invariants hold.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lyre::test;
  static HandoverBed bed;
  if (size == 0) return 0;
  const uint32_t host = data[0] & 1;
  std::vector<uint8_t> records = bed.records_of(host);
  for (size_t at = 1; at + 3 <= size; at += 3) {
    const size_t place = (size_t{data[at]} << 8 | data[at + 1]) * records.size() >> 16;
    records[place] = data[at + 2];
  }
  const auto successor = bed.successor(host, records);
  if (successor != nullptr) bed.run(*successor, 12);
  return 0;
}

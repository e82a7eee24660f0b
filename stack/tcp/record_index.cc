#include "stack/tcp/record_index.h"

namespace lyre::tcp {

uint32_t RecordIndex::find(uint32_t tail, SeqNum at) {
  add_up_to(tail);
  return treap_.find_first([at](const SentRecord& record) { return record.end.after(at); });
}

void RecordIndex::add_up_to(uint32_t tail) {
  // Records are appended at the end, so those outside the index are the last of the list.
  uint32_t first = kNoNode;
  for (uint32_t i = tail; i != kNoNode && !records_[i].is_indexed; i = records_[i].seq_prev) {
    first = i;
  }
  for (uint32_t i = first; i != kNoNode; i = records_[i].seq_next) {
    insert_after(records_[i].seq_prev, i);
  }
}

void RecordIndex::split(uint32_t left, uint32_t right) {
  if (records_[left].is_indexed) insert_after(left, right);
}

void RecordIndex::insert_after(uint32_t left, uint32_t index) {
  treap_.insert_after(left, index);
  records_[index].is_indexed = true;
}

void RecordIndex::erase(uint32_t index) {
  if (!records_[index].is_indexed) return;
  treap_.erase(index);
  records_[index].is_indexed = false;
}

}  // namespace lyre::tcp

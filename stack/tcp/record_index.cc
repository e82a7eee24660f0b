#include "stack/tcp/record_index.h"

namespace lyre::tcp {

uint32_t RecordIndex::priority(uint32_t index) const {
  // The finalizer of MurmurHash3: neighbouring indices get unrelated priorities.
  uint64_t x = seed_ ^ index;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
  return static_cast<uint32_t>(x >> 32);
}

uint32_t& RecordIndex::link_to(uint32_t index) {
  const uint32_t parent = records_[index].parent;
  if (parent == kNoNode) return root_;
  SentRecord& above = records_[parent];
  return above.left == index ? above.left : above.right;
}

uint32_t RecordIndex::find(uint32_t tail, SeqNum at) {
  add_up_to(tail);
  uint32_t found = kNoNode;
  for (uint32_t index = root_; index != kNoNode;) {
    const SentRecord& record = records_[index];
    if (record.end.after(at)) {
      found = index;
      index = record.left;
    } else {
      index = record.right;
    }
  }
  return found;
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
  SentRecord& record = records_[index];
  record.left = record.right = kNoNode;
  record.is_indexed = true;
  uint32_t parent = left;
  if (left == kNoNode) {  // only into an empty index: the records before it are all gone
    root_ = index;
  } else if (records_[left].right == kNoNode) {
    records_[left].right = index;
  } else {
    parent = records_[left].right;
    while (records_[parent].left != kNoNode) parent = records_[parent].left;
    records_[parent].left = index;
  }
  record.parent = parent;
  while (record.parent != kNoNode && priority(record.parent) < priority(index)) rotate_up(index);
}

void RecordIndex::erase(uint32_t index) {
  SentRecord& record = records_[index];
  if (!record.is_indexed) return;
  while (record.left != kNoNode || record.right != kNoNode) {
    const bool takes_left =
        record.right == kNoNode ||
        (record.left != kNoNode && priority(record.left) > priority(record.right));
    rotate_up(takes_left ? record.left : record.right);
  }
  link_to(index) = kNoNode;
  record.is_indexed = false;
}

void RecordIndex::rotate_up(uint32_t child) {
  const uint32_t parent = records_[child].parent;
  link_to(parent) = child;
  SentRecord& up = records_[child];
  SentRecord& down = records_[parent];
  up.parent = down.parent;
  down.parent = child;
  uint32_t& taken = down.left == child ? down.left : down.right;
  uint32_t& given = down.left == child ? up.right : up.left;
  taken = given;
  given = parent;
  if (taken != kNoNode) records_[taken].parent = parent;
}

}  // namespace lyre::tcp

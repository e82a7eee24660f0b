#include "nccl_adapter/observe/operation.h"

namespace lyre::nccl_adapter {

uint64_t OperationTable::remember(const Operation& operation) {
  const uint64_t ticket = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  Slot& slot = slots_[ticket % kSlots];
  const Words words = std::bit_cast<Words>(operation);
  slot.ticket.store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < kWords; ++i) {
    // pairs with the acquire in find(): who reads a new word sees that the old ticket is gone
    slot.words[i].store(words[i], std::memory_order_release);
  }
  slot.ticket.store(ticket, std::memory_order_release);  // pairs with the first acquire in find()
  return ticket;
}

std::optional<Operation> OperationTable::find(uint64_t ticket) const {
  const Slot& slot = slots_[ticket % kSlots];
  // pairs with the release in remember(): the words are written
  if (ticket == 0 || slot.ticket.load(std::memory_order_acquire) != ticket) return std::nullopt;
  Words words;
  for (size_t i = 0; i < kWords; ++i) {
    words[i] = slot.words[i].load(std::memory_order_acquire);  // pairs with remember()
  }
  if (slot.ticket.load(std::memory_order_relaxed) != ticket) return std::nullopt;
  return std::bit_cast<Operation>(words);
}

}  // namespace lyre::nccl_adapter

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stack/base/check.h"

namespace lyre::worker {

/// How many receive slots each client of a worker has: those with unread or out-of-order bytes of
/// its sessions, and those lent to it. A limit is a multiple of the slots that are free above the
/// reserve (dynamic thresholds, Choudhury and Hahne 1998): a client alone may have five eighths of
/// the pool, each of several that take all they can gets an equal part, and the reserve stays free
/// of them, whatever their number and weights. Only users below their floor take slots of the
/// reserve. No limit has to be configured, and none is found by a walk.
/// Beside others of its user that have all of their shares, a client has its floor, or what its
/// user has left of that: clients that come later find some as well. The clients of one user, of
/// whatever number, leave a part of the pool to other users nevertheless. Accounts are by context
/// index; sessions that no context owns share one more. Owner: takes its memory at construction.
/// Thread: the worker.
class ReceiveAccounts {
 public:
  /// What may be held for each slot that is free above the reserve.
  struct Limits {
    uint32_t client;
    uint32_t user;  ///< by all clients of a uid
  };
  static constexpr Limits kShare = {.client = 2, .user = 5};
  /// For bytes for which a reader waits.
  static constexpr Limits kOverdraft = {.client = 3, .user = 8};
  /// The floor of each user and of each client is this share of the pool (1/n), or less where there
  /// are many: those of all users are at most half of the pool, and so are those of all clients.
  static constexpr uint32_t kFloorShare = 64;
  /// A client may have its floor while its user has at most so many slots for each that is free
  /// above the reserve: one user then leaves an 18th of the pool above the reserve.
  static constexpr uint32_t kFloorsOfUser = 16;
  /// So many times what a client has of its floor is then left for each client of its user that has
  /// slots. With 4 and 7700 slots, 192 clients that come in turn leave one slot at least to the
  /// next; in smaller pools, and with weights, those that come last may find none.
  static constexpr uint32_t kFloorsLeft = 4;
  /// Below this share of the pool (1/n) nothing is copied into slots that could be sent otherwise.
  static constexpr uint32_t kLowShare = 8;
  /// The last share of the pool (1/n) is for packets that need a slot only while they are looked
  /// at (ARP, acknowledgments). Half of it also takes bytes of users below their floor, if a reader
  /// waits for the bytes.
  static constexpr uint32_t kReserveShare = 16;

  /// `slot_count`: those that are not in the receive rings of ports, which take theirs first.
  ReceiveAccounts(uint32_t slot_count, uint32_t contexts_max)
      : slot_count_(slot_count),
        reserve_(slot_count / kReserveShare),
        unowned_(contexts_max),
        accounts_(contexts_max + 1),
        users_(contexts_max + 1) {
    accounts_[unowned_].user = unowned_;
    set_floors();
  }

  /// A client of the user attached, whose limits are `weight` times those of others.
  /// REQUIRES: the context has no account.
  void open(uint32_t context, uint64_t user_id, uint32_t weight = 1) {
    uint32_t user = 0;
    uint32_t unused = unowned_;
    for (; user < unowned_; ++user) {
      if (users_[user].clients == 0) {
        unused = std::min(unused, user);
      } else if (users_[user].id == user_id) {
        break;
      }
    }
    if (user == unowned_) user = unused;
    users_[user].id = user_id;
    users_in_use_ += users_[user].clients == 0;
    ++users_[user].clients;
    ++clients_;
    accounts_[context] = {.held = 0, .user = user, .weight = weight};
    set_floors();
  }
  /// REQUIRES: the context has an account, and no slots.
  void close(uint32_t context) {
    User& user = users_[accounts_[context].user];
    --user.clients;
    users_in_use_ -= user.clients == 0;
    --clients_;
    set_floors();
  }

  void add(uint32_t context, uint32_t slots) {
    Account& account = account_of(context);
    User& user = users_[account.user];
    user.holders += account.held == 0 && slots > 0;
    account.held += slots;
    user.held += slots;
  }
  /// REQUIRES: the account has so many.
  void remove(uint32_t context, uint32_t slots) {
    Account& account = account_of(context);
    User& user = users_[account.user];
    account.held -= slots;
    user.held -= slots;
    user.holders -= account.held == 0 && slots > 0;
  }

  /// True if no account can be at its limit. The packet path checks only this.
  bool is_plentiful(uint32_t slots_free) const { return slots_free >= slot_count_ / 2; }
  bool is_low(uint32_t slots_free) const { return slots_free < slot_count_ / kLowShare; }
  bool is_reserve(uint32_t slots_free) const { return slots_free < reserve_; }
  /// True if slots have to be taken back, until the reserve is whole. What is between the two is
  /// for packets that sessions of this host send to each other, and for drivers that fill their
  /// rings late. The eighth above what clients may have is for packets that a worker is looking at.
  bool is_short(uint32_t slots_free) const {
    return 8 * uint64_t{slots_free} < 5 * uint64_t{reserve_};
  }
  /// Whether the client may have more.
  bool may_hold(uint32_t context, uint32_t slots_free) const {
    return !is_reserve(slots_free) && is_within(account_of(context), slots_free, kShare);
  }
  /// The same for bytes for which its reader waits.
  bool may_overdraw(uint32_t context, uint32_t slots_free) const {
    return !is_reserve(2 * slots_free) && is_within(account_of(context), slots_free, kOverdraft);
  }

  /// The number of the client's user: below user_count(), and no other user's meanwhile.
  uint32_t user_of(uint32_t context) const { return account_of(context).user; }
  uint32_t user_count() const { return static_cast<uint32_t>(users_.size()); }

  uint32_t held_by(uint32_t context) const { return account_of(context).held; }
  uint32_t weight_of(uint32_t context) const { return account_of(context).weight; }
  /// Slots that the client may have now, beside what others of its user have. At least one, so that
  /// a share of it can be told; may_hold() decides.
  uint32_t limit_of(uint32_t context, uint32_t slots_free) const {
    const Account& account = account_of(context);
    const uint64_t share = share_of(account, slots_free);
    const uint64_t others = users_[account.user].held - account.held;
    const auto beside = [others](uint64_t of_user) { return of_user - std::min(others, of_user); };
    const uint64_t of_share = std::min(kShare.client * share, beside(kShare.user * share));
    const uint64_t taken_by_next = 1 + kFloorsOfUser * left_for_one(account);
    const uint64_t of_floor =
        std::min<uint64_t>(floor_, beside(kFloorsOfUser * share) / taken_by_next + 1);
    const uint64_t limit = std::max({of_share, of_floor, beside(user_floor_)});
    return static_cast<uint32_t>(std::clamp<uint64_t>(limit, 1, slot_count_));
  }
  /// What each client may have beside greedy ones of its user, as far as they leave it.
  uint32_t floor() const { return floor_; }
  /// What each user may have in any case.
  uint32_t user_floor() const { return user_floor_; }
  /// Nothing is taken from a client that has so many slots, and its user so many: the client is not
  /// above its floor, nor the user above its part of one half of the pool. Where clients have more
  /// than that half, one of them at least is not safe.
  bool is_safe(uint32_t of_client, uint32_t of_user) const {
    const uint32_t users = std::max(users_in_use_, 1u);
    return of_client <= floor_ && uint64_t{of_user} * users <= slot_count_ / 2;
  }

  /// Looks at all accounts: for tests.
  bool empty() const {
    return std::all_of(accounts_.begin(), accounts_.end(),
                       [](const Account& account) { return account.held == 0; });
  }
  /// Breaks off the process when the sums are wrong (tests).
  void check_invariants() const {
    std::vector<uint32_t> held(users_.size()), holders(users_.size());
    for (const Account& account : accounts_) {
      held[account.user] += account.held;
      holders[account.user] += account.held > 0;
    }
    for (uint32_t user = 0; user < users_.size(); ++user) {
      LYRE_CHECK(held[user] == users_[user].held && held[user] <= slot_count_);
      LYRE_CHECK(holders[user] == users_[user].holders);
    }
  }

 private:
  struct Account {
    uint32_t held = 0;
    uint32_t user = 0;
    uint32_t weight = 1;
  };
  struct User {
    uint64_t id = 0;  ///< a uid, or DomainRules::user_of()
    uint32_t clients = 0;
    uint32_t holders = 0;  ///< clients that have slots
    uint32_t held = 0;
  };
  Account& account_of(uint32_t context) { return accounts_[std::min(context, unowned_)]; }
  const Account& account_of(uint32_t context) const {
    return accounts_[std::min(context, unowned_)];
  }
  /// What a limit is a multiple of.
  uint64_t share_of(const Account& account, uint32_t slots_free) const {
    return uint64_t{slots_free - std::min(slots_free, reserve_)} * account.weight;
  }
  /// What is left of `share` for the floors of its user's clients, for each slot of its own floor.
  /// Clients without slots do not count: they may want none.
  uint64_t left_for_one(const Account& account) const {
    const uint64_t holders = users_[account.user].holders + (account.held == 0);
    return kFloorsLeft * holders * account.weight;
  }
  bool is_within(const Account& account, uint32_t slots_free, const Limits& limits) const {
    const uint64_t of_user = users_[account.user].held;
    if (of_user < user_floor_) return true;
    const uint64_t share = share_of(account, slots_free);
    if (account.held < floor_) {
      const uint64_t left = account.held * left_for_one(account);
      if (of_user + kFloorsOfUser * left <= kFloorsOfUser * share) return true;
    }
    return account.held <= limits.client * share && of_user <= limits.user * share;
  }
  /// Where there are more of them than half of kFloorShare, each has an equal part of one half of
  /// the pool.
  uint32_t floor_for(uint32_t count) const {
    return std::max(slot_count_ / 2 / std::max(count, kFloorShare / 2), 1u);
  }
  void set_floors() {
    floor_ = floor_for(clients_);
    user_floor_ = floor_for(users_in_use_);
  }

  uint32_t slot_count_;
  uint32_t reserve_;
  uint32_t unowned_;
  uint32_t clients_ = 0;
  uint32_t users_in_use_ = 0;
  uint32_t floor_ = 1;       ///< of a client
  uint32_t user_floor_ = 1;  ///< of a user
  std::vector<Account> accounts_;
  std::vector<User> users_;
};

}  // namespace lyre::worker

#include "nccl_adapter/transport/verbs/device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "nccl_adapter/transport/verbs/memory_error.h"
#include "nccl_adapter/transport/verbs/queue_pair.h"

namespace lyre::nccl_adapter {
namespace {

// Room for 341 queue pairs. Drivers add an entry and round up to a power of two: mlx5 locks 1 MiB.
constexpr uint32_t kCompletionsMax = 16'383;
// Less is not tried: room for ten.
constexpr uint32_t kCompletionsMin = 511;
constexpr int kCompletionsPerPoll = 32;
// One busy queue pair does not keep the others' callers waiting.
constexpr int kPollsMax = 4;
constexpr int kEventsMax = 16;

// Of the whole device.
std::string trouble_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      return "the device is gone, or has failed";
    case IBV_EVENT_CQ_ERR:
      return "its completion queue has overflowed";
    default:
      return {};
  }
}

}  // namespace

std::unique_ptr<VerbsDevice> VerbsDevice::open(const VerbsApi& api, ibv_device* device,
                                               const Settings& settings, std::string* why) {
  const std::string name = api.get_device_name(device);
  ibv_context* context = api.open_device(device);
  if (context == nullptr) {
    *why = name + " cannot be opened: " + std::strerror(errno);
    return nullptr;
  }
  std::vector<VerbsPort> ports = read_verbs_ports(api, context, settings);
  const std::string first_why =
      ports.empty() ? name + " has no port" : ports.front().name() + ": " + ports.front().why_not;
  std::erase_if(ports, [](const VerbsPort& port) { return !port.why_not.empty(); });
  ibv_pd* pd = ports.empty() ? nullptr : api.alloc_pd(context);
  if (pd == nullptr) {
    *why =
        ports.empty() ? first_why : name + " gives no protection domain: " + std::strerror(errno);
    api.close_device(context);
    return nullptr;
  }
  std::unique_ptr<VerbsDevice> opened(
      new VerbsDevice(api, settings, context, pd, std::move(ports)));
  return opened->create_completions(why) ? std::move(opened) : nullptr;
}

VerbsDevice::VerbsDevice(const VerbsApi& api, const Settings& settings, ibv_context* context,
                         ibv_pd* pd, std::vector<VerbsPort> ports)
    : api_(api),
      settings_(settings),
      context_(context),
      pd_(pd),
      name_(ports.front().device),
      ports_(std::move(ports)),
      registrations_(api, pd),
      was_there_(api.is_there(context->device)) {}

VerbsDevice::~VerbsDevice() {
  registrations_.forget_all();
  if (cq_ != nullptr) api_.destroy_cq(cq_);
  api_.dealloc_pd(pd_);
  api_.close_device(context_);
}

// A smaller one needs less locked memory, and has room for fewer queue pairs.
bool VerbsDevice::create_completions(std::string* why) {
  for (entries_ = std::min(ports_.front().limits.completions, kCompletionsMax);; entries_ /= 2) {
    cq_ = api_.create_cq(context_, static_cast<int>(entries_), nullptr, nullptr, 0);
    if (cq_ != nullptr) return true;
    if (entries_ / 2 < kCompletionsMin) break;
  }
  *why = name_ + " gives no completion queue: " + memory_error_text(errno);
  return false;
}

uint32_t VerbsDevice::add(QueuePair* queue_pair, uint8_t port, uint32_t entries) {
  if (is_lost() || entries > entries_ - entries_used_) return 0;
  // What destroyed queue pairs have left there takes room, too.
  for (uint32_t taken = 0; taken < entries_ && collect(); taken += kCompletionsPerPoll) {
  }
  entries_used_ += entries;
  while (++last_number_ == 0 || queue_pairs_.contains(last_number_)) {
  }
  queue_pairs_.emplace(last_number_, User{queue_pair, port});
  return last_number_;
}

void VerbsDevice::remove(uint32_t number, uint32_t entries) {
  if (queue_pairs_.erase(number) > 0) entries_used_ -= entries;
}

QueuePair* VerbsDevice::find(uint64_t work_request) const {
  const auto found = queue_pairs_.find(static_cast<uint32_t>(work_request >> 32));
  return found != queue_pairs_.end() ? found->second.queue_pair : nullptr;
}

// False when the completion queue is empty.
bool VerbsDevice::collect() {
  std::array<ibv_wc, kCompletionsPerPoll> entries;
  const int count = ibv_poll_cq(cq_, kCompletionsPerPoll, entries.data());
  if (count < 0) lose("its completions cannot be read");
  for (int i = 0; i < count; ++i) {
    const ibv_wc& entry = entries[static_cast<size_t>(i)];
    QueuePair* queue_pair = find(entry.wr_id);
    if (queue_pair == nullptr) continue;
    queue_pair->on_completion(entry);
    if (touched_.empty() || touched_.back() != queue_pair->number()) {
      touched_.push_back(queue_pair->number());
    }
  }
  return count == kCompletionsPerPoll;
}

bool VerbsDevice::poll() {
  for (int i = 0; i < kPollsMax && !is_lost() && collect(); ++i) {
  }
  // An owner may destroy any queue pair.
  const std::vector<uint32_t> touched = std::exchange(touched_, {});
  for (const uint32_t number : touched) {
    const auto found = queue_pairs_.find(number);
    if (found != queue_pairs_.end()) found->second.queue_pair->notify();
  }
  return !touched.empty();
}

void VerbsDevice::read_events() {
  if (was_there_ && !api_.is_there(context_->device)) return lose("the device is gone");
  for (int i = 0; i < kEventsMax; ++i) {
    ibv_async_event event{};
    if (api_.get_async_event(context_, &event) != 0) return;
    // A queue pair cannot be destroyed before its events are acknowledged.
    api_.ack_async_event(&event);
    on_event(event);
  }
}

void VerbsDevice::on_event(const ibv_async_event& event) {
  if (const std::string why = trouble_of(event); !why.empty()) return lose(why);
  if (event.event_type == IBV_EVENT_PORT_ERR) return lose_port(event.element.port_num);
  const bool is_of_ports =
      event.event_type == IBV_EVENT_GID_CHANGE || event.event_type == IBV_EVENT_PORT_ACTIVE;
  if (is_of_ports) return read_ports();
  const bool is_of_queue_pair = event.event_type == IBV_EVENT_QP_FATAL ||
                                event.event_type == IBV_EVENT_QP_REQ_ERR ||
                                event.event_type == IBV_EVENT_QP_ACCESS_ERR;
  if (!is_of_queue_pair) return;
  for (const auto& [number, user] : queue_pairs_) {
    if (user.queue_pair != event.element.qp->qp_context) continue;
    user.queue_pair->fail("the device reports an error of the queue pair");
    touched_.push_back(number);
  }
}

// Between two events of one change no port may be usable: those that were known remain then.
void VerbsDevice::read_ports() {
  std::vector<VerbsPort> ports = read_verbs_ports(api_, context_, settings_);
  std::erase_if(ports, [](const VerbsPort& port) { return !port.why_not.empty(); });
  if (!ports.empty()) ports_ = std::move(ports);
}

// The port is used again when the device says that it is active.
void VerbsDevice::lose_port(int number) {
  const auto is_it = [&](const VerbsPort& port) { return port.port == number; };
  if (std::all_of(ports_.begin(), ports_.end(), is_it)) return lose("its port is down");
  std::erase_if(ports_, is_it);
  fail_queue_pairs(name_ + " port " + std::to_string(number) + ": the port is down", number);
}

void VerbsDevice::lose(const std::string& why) {
  if (is_lost()) return;
  why_lost_ = name_ + ": " + why;
  fail_queue_pairs(why_lost_, 0);
}

void VerbsDevice::fail_queue_pairs(const std::string& why, int port) {
  for (const auto& [number, user] : queue_pairs_) {
    if (port != 0 && user.port != port) continue;
    user.queue_pair->fail(why);
    touched_.push_back(number);
  }
}

}  // namespace lyre::nccl_adapter

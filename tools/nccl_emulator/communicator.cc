#include "tools/nccl_emulator/communicator.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

constexpr int kDevice = 0;
constexpr uint64_t kLlBytesMax = 128 * 1024;  // LL doubles the bytes of what is larger

/// The handles of all channels as one message of the bootstrap, and back.
Bytes join(const std::vector<Bytes>& parts) {
  Bytes joined;
  for (const Bytes& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

std::vector<Bytes> split(const Bytes& joined) {
  std::vector<Bytes> parts;
  for (size_t at = 0; at + nccl_abi::kHandleBytesMax <= joined.size();
       at += nccl_abi::kHandleBytesMax) {
    const auto begin = joined.begin() + static_cast<std::ptrdiff_t>(at);
    parts.emplace_back(begin, begin + nccl_abi::kHandleBytesMax);
  }
  return parts;
}

}  // namespace

Protocol choose_protocol(uint64_t bytes) {
  return bytes <= kLlBytesMax ? Protocol::kLl : Protocol::kSimple;
}

Communicator::Communicator(CommunicatorConfig config, const AllGather& all_gather)
    : config_(std::move(config)) {
  open_device();
  service_ = std::make_unique<ServiceThread>();
  for (int i = 0; i < config_.channels; ++i) {
    channels_.push_back(std::make_unique<Channel>());
    channel_pointers_.push_back(channels_.back().get());
  }
  try {
    std::vector<Bytes> handles;
    service_->run([&] { handles = listen(); });
    const std::vector<Bytes> all = all_gather(join(handles));
    service_->run([&] { connect(split(all[static_cast<size_t>(right())])); });
    progress_ = std::make_unique<ProgressThread>(
        *plugin_, profiler_.get(), channel_pointers_,
        ProgressThread::Options{config_.slice_steps, config_.device_thread, {right(), left()}});
  } catch (...) {
    // As NCCL does, comms that are half open are left to the plugin.
    service_.reset();
    throw;
  }
}

Communicator::~Communicator() {
  try {
    close();
  } catch (const std::exception&) {
    // An abort follows a failure that has been reported.
  }
}

void Communicator::open_device() {
  plugin_ = load_net_plugin(config_.plugin_path, config_.abi);
  require_success(plugin_->init(config_.comm_id), "init");
  is_open_ = true;
  // After the net plugin, as NCCL does: the same library may be the profiler.
  profiler_ = load_profiler(config_.plugin_path, plugin_->abi(), config_.comm_id, config_.rank,
                            config_.ranks());
  int devices = 0;
  require_success(plugin_->devices(&devices), "devices");
  if (devices <= kDevice) throw Failure(std::string(plugin_->name()) + " has no device");
  require_success(plugin_->get_properties(kDevice, &properties_), "getProperties");
  if ((properties_.ptr_support & nccl_abi::kPtrHost) == 0) {
    throw Failure(std::string(plugin_->name()) + " does not take host memory");
  }
}

std::string Communicator::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " on host " + host(rank);
}

std::vector<Bytes> Communicator::listen() {
  std::vector<Bytes> handles;
  for (int i = 0; i < config_.channels; ++i) {
    alignas(16) HandleBuffer handle{};
    void* comm = nullptr;
    require_success(plugin_->listen(kDevice, handle.data(), &comm), "listen");
    if (comm == nullptr) throw Failure("listen: success without a comm");
    listen_comms_.push_back(comm);
    handles.emplace_back(handle.begin(), handle.end());
  }
  return handles;
}

void Communicator::connect(const std::vector<Bytes>& right_handles) {
  if (right_handles.size() != channels_.size()) throw Failure("a handle is missing");
  std::vector<HandleBuffer> handles(channels_.size());
  for (size_t i = 0; i < handles.size(); ++i) {
    std::copy(right_handles[i].begin(), right_handles[i].end(), handles[i].begin());
  }
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(config_.connect_timeout_s);
  bool is_complete = false;
  while (!is_complete) {
    is_complete = true;
    for (size_t i = 0; i < channels_.size(); ++i) {
      is_complete = connect_channel(i, &handles[i]) && is_complete;
    }
    if (is_complete) break;
    if (std::chrono::steady_clock::now() > deadline) {
      throw Failure("no connection with " + name_of(right()) + " and " + name_of(left()) +
                    " after " + std::to_string(config_.connect_timeout_s) + " s");
    }
    ::sched_yield();
  }
  for (auto& channel : channels_) prepare_channel(channel.get());
}

bool Communicator::connect_channel(size_t index, HandleBuffer* handle) {
  void*& send = channels_[index]->send.comm;
  void*& recv = channels_[index]->recv.comm;
  void*& listen_comm = listen_comms_[index];
  if (send == nullptr) {
    require_success(plugin_->connect(kDevice, handle->data(), &send),
                    "connect to " + name_of(right()));
  }
  if (recv == nullptr) {
    require_success(plugin_->accept(listen_comm, &recv), "accept " + name_of(left()));
    // NCCL closes a listen comm when its one peer is accepted.
    if (recv != nullptr) {
      require_success(plugin_->close_listen(std::exchange(listen_comm, nullptr)), "closeListen");
    }
  }
  return send != nullptr && recv != nullptr;
}

void Communicator::prepare_channel(Channel* channel) {
  channel->send.tag = config_.rank;
  channel->recv.tag = left();
  channel->send.crosses_hosts = host(right()) != host(config_.rank);
  channel->recv.crosses_hosts = host(left()) != host(config_.rank);
  channel->send.staging.create(*plugin_, channel->send.comm);
  channel->recv.staging.create(*plugin_, channel->recv.comm);
}

Operation Communicator::make_operation(std::span<float> data, Protocol protocol,
                                       Collective collective) {
  const RingShape shape{config_.rank, config_.ranks(), config_.channels, config_.slice_steps};
  Operation operation{.collective = collective,
                      .data = data,
                      .protocol = protocol,
                      .ring = make_ring(shape, protocol, data.size(), collective),
                      .flag_base = next_flag_base_};
  size_t longest = 0;
  for (const auto& slices : operation.ring) longest = std::max(longest, slices.size());
  next_flag_base_ += static_cast<uint32_t>(longest);
  return operation;
}

MovedBytes Communicator::crossed() const {
  MovedBytes bytes;
  for (const auto& channel : channels_) {
    if (channel->send.crosses_hosts) bytes.sent += channel->send.bytes_moved;
    if (channel->recv.crosses_hosts) bytes.received += channel->recv.bytes_moved;
  }
  return bytes;
}

void Communicator::close_comms() {
  for (auto& channel : channels_) {
    Connection& send = channel->send;
    Connection& recv = channel->recv;
    if (send.comm != nullptr) {
      send.staging.destroy(*plugin_, send.comm);
      require_success(plugin_->close_send(std::exchange(send.comm, nullptr)), "closeSend");
    }
    if (recv.comm != nullptr) {
      recv.staging.destroy(*plugin_, recv.comm);
      require_success(plugin_->close_recv(std::exchange(recv.comm, nullptr)), "closeRecv");
    }
  }
}

void Communicator::close() {
  progress_.reset();  // joined before anything is closed
  if (service_ != nullptr) {
    service_->run([this] { close_comms(); });
    service_.reset();
  }
  profiler_.reset();
  if (!std::exchange(is_open_, false)) return;
  require_success(plugin_->finalize(), "finalize");
  plugin_->unload();
}

}  // namespace lyre::nccl_emulator

#include "tools/lyre/allreduce/communicator.h"

#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "tools/lyre/allreduce/failure.h"

namespace lyre::allreduce {
namespace {

constexpr int kDevice = 0;

/// NCCL's handle: 128 bytes that stay where they are while connect is repeated.
struct alignas(16) HandleBuffer {
  uint8_t bytes[nccl_abi::kHandleBytesMax] = {};
};

/// All channels' handles in one message of the out-of-band channel, and back.
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

Communicator::Communicator(const Job& job, const AllGather& all_gather) : job_(job) {
  open_device();
  service_ = std::make_unique<ServiceThread>();
  for (int i = 0; i < job_.channels; ++i) {
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
        ProgressThread::Options{job_.slice_steps, job_.device_thread, {right(), left()}});
  } catch (...) {
    // Comms that are half open are left to the plugin, as NCCL leaves them.
    service_.reset();
    throw;
  }
}

Communicator::~Communicator() {
  try {
    close();
  } catch (const std::exception&) {
    // The failure that led here has been reported; an abort has nobody left to tell.
  }
}

void Communicator::open_device() {
  plugin_ = load_plugin(job_.plugin_path, job_.abi);
  require_success(plugin_->init(job_.comm_id), "init");
  is_open_ = true;
  // After the network, as NCCL does: it may be the profiler, too.
  profiler_ = load_profiler(job_.plugin_path, plugin_->abi(), job_.comm_id, job_.rank, job_.ranks);
  int devices = 0;
  require_success(plugin_->devices(&devices), "devices");
  if (devices <= kDevice) throw Failure(std::string(plugin_->name()) + " has no device");
  require_success(plugin_->get_properties(kDevice, &properties_), "getProperties");
  if ((properties_.ptr_support & nccl_abi::kPtrHost) == 0) {
    throw Failure(std::string(plugin_->name()) + " does not take host memory");
  }
}

std::string Communicator::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " on host " + job_.hosts[static_cast<size_t>(rank)];
}

std::vector<Bytes> Communicator::listen() {
  std::vector<Bytes> handles;
  for (int i = 0; i < job_.channels; ++i) {
    HandleBuffer handle;
    void* comm = nullptr;
    require_success(plugin_->listen(kDevice, handle.bytes, &comm), "listen");
    if (comm == nullptr) throw Failure("listen: success without a comm");
    listen_comms_.push_back(comm);
    handles.emplace_back(std::begin(handle.bytes), std::end(handle.bytes));
  }
  return handles;
}

void Communicator::connect(std::vector<Bytes> right_handles) {
  if (right_handles.size() != channels_.size()) throw Failure("a handle is missing");
  std::vector<HandleBuffer> handles(channels_.size());
  for (size_t i = 0; i < handles.size(); ++i) {
    std::memcpy(handles[i].bytes, right_handles[i].data(), right_handles[i].size());
  }
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(job_.connect_timeout_s);
  bool complete = false;
  while (!complete) {
    complete = true;
    for (size_t i = 0; i < channels_.size(); ++i) {
      void*& send = channels_[i]->send.comm;
      void*& recv = channels_[i]->recv.comm;
      if (send == nullptr) {
        require_success(plugin_->connect(kDevice, handles[i].bytes, &send),
                        "connect to " + name_of(right()));
      }
      if (recv == nullptr) {
        require_success(plugin_->accept(listen_comms_[i], &recv), "accept " + name_of(left()));
        // NCCL closes a listener as soon as its one peer has come.
        if (recv != nullptr)
          require_success(plugin_->close_listen(listen_comms_[i]), "closeListen");
      }
      complete = complete && send != nullptr && recv != nullptr;
    }
    if (!complete && std::chrono::steady_clock::now() > deadline) {
      throw Failure("no connection with " + name_of(right()) + " and " + name_of(left()) +
                    " after " + std::to_string(job_.connect_timeout_s) + " s");
    }
    if (!complete) sched_yield();
  }
  for (auto& channel : channels_) {
    channel->send.tag = job_.rank;
    channel->recv.tag = left();
    const auto& hosts = job_.hosts;
    const std::string& mine = hosts[static_cast<size_t>(job_.rank)];
    channel->send.crosses_hosts = hosts[static_cast<size_t>(right())] != mine;
    channel->recv.crosses_hosts = hosts[static_cast<size_t>(left())] != mine;
    channel->send.staging.create(*plugin_, channel->send.comm);
    channel->recv.staging.create(*plugin_, channel->recv.comm);
  }
}

tools::TcpPayloadBytes Communicator::crossed() const {
  tools::TcpPayloadBytes bytes;
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
  if (std::exchange(is_open_, false)) require_success(plugin_->finalize(), "finalize");
}

}  // namespace lyre::allreduce

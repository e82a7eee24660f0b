#include "stack/io/dpdk/interrupt_thread.h"

#include <rte_alarm.h>
#include <unistd.h>

#include <atomic>

namespace lyre::io::dpdk {
namespace {

struct Job {
  void (*work)(void*);
  void* argument;
  std::atomic<bool> is_done{false};
};

void run_job(void* argument) {
  Job& job = *static_cast<Job*>(argument);
  job.work(job.argument);
  job.is_done.store(true);  // release: pairs with the loads below
}

}  // namespace

bool run_on_interrupt_thread(void (*work)(void*), void* argument) {
  constexpr int kTriesMax = 1000;
  constexpr useconds_t kTryUs = 100;
  Job job{.work = work, .argument = argument};
  const bool is_set = rte_eal_alarm_set(1, run_job, &job) == 0;
  for (int i = 0; is_set && i < kTriesMax && !job.is_done.load(); ++i) usleep(kTryUs);
  // Waits for one that runs. Also one that was set without a timer: another's may have run it.
  if (!job.is_done.load()) rte_eal_alarm_cancel(run_job, &job);
  if (!is_set && !job.is_done.load()) run_job(&job);
  return job.is_done.load();
}

bool let_interrupt_thread_finish() {
  return on_interrupt_thread([] {});
}

}  // namespace lyre::io::dpdk

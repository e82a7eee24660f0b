#include <gtest/gtest.h>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/options.h"

namespace lyre::allreduce {
namespace {

/// A machine of several, with this machine's daemon.
Options of_several_machines() {
  Options options;
  options.no_kernel = true;
  options.local_ranks = 1;
  options.listen = "127.0.0.1:1";
  return options;
}

TEST(AllreduceOptions, TheOptionSocketNamesTheDaemonOfThisMachine) {
  Options options = of_several_machines();
  options.socket_path = "/run/lyre/team-a/lyred.sock";
  const Machine machine = make_machine(options);
  ASSERT_EQ(machine.hosts.size(), 1u);
  EXPECT_EQ(machine.hosts[0].daemon_socket, "/run/lyre/team-a/lyred.sock");
  Job job;
  job.host = machine.hosts[0].name;
  job.transport = kTransportPlugin;
  complete_job(machine, &job);
  EXPECT_EQ(job.daemon_socket, "/run/lyre/team-a/lyred.sock");
  EXPECT_EQ(job.environment["LYRE_SOCKET"], "/run/lyre/team-a/lyred.sock");
}

TEST(AllreduceOptions, AHostNamesItsOwnDaemon) {
  Options options = of_several_machines();
  options.hosts = {"a=/run/a.sock"};
  EXPECT_EQ(make_machine(options).hosts[0].daemon_socket, "/run/a.sock");
  options.socket_path = "/run/b.sock";
  EXPECT_THROW(make_machine(options), UsageError);
}

TEST(AllreduceOptions, AMissingDaemonIsToldBeforeOtherMachinesAreWaitedFor) {
  Machine machine{.hosts = {{.name = "a", .daemon_socket = "/nonexistent/a.sock"}},
                  .local_ranks = 1,
                  .plugin_path = "/lib/libnccl-net-lyre.so",
                  .kernel_plugin_path = ""};
  try {
    check_daemons(machine);
    FAIL() << "there is no daemon";
  } catch (const tools::Failure& failure) {
    EXPECT_EQ(failure.exit_code(), tools::kExitNoDaemon);
  }
  machine.plugin_path = "/lib/libnccl-net-kernel.so";
  EXPECT_NO_THROW(check_daemons(machine));
}

}  // namespace
}  // namespace lyre::allreduce

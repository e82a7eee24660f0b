#include "stack/io/dpdk/xdp_attachment.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "stack/io/dpdk/kernel_interface.h"
#include "tests/unit/stack/io/dpdk/own_network.h"

namespace lyre::io::dpdk {
namespace {

int bpf_command(bpf_cmd command, bpf_attr attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

/// A program that lets every packet pass, or -1.
int load_program() {
  const bpf_insn instructions[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
      {.code = BPF_JMP | BPF_EXIT}};
  bpf_attr attributes = {};
  attributes.prog_type = BPF_PROG_TYPE_XDP;
  attributes.insns = reinterpret_cast<uint64_t>(instructions);
  attributes.insn_cnt = std::size(instructions);
  attributes.license = reinterpret_cast<uint64_t>("");
  return bpf_command(BPF_PROG_LOAD, attributes);
}

/// Another process's link, as it were: bpf_xdp_attach() does not know it.
int attach_as_another(int interface_index, int program) {
  bpf_attr attributes = {};
  attributes.link_create.prog_fd = static_cast<uint32_t>(program);
  attributes.link_create.target_ifindex = static_cast<uint32_t>(interface_index);
  attributes.link_create.attach_type = BPF_XDP;
  return bpf_command(BPF_LINK_CREATE, attributes);
}

/// Calls `body` with the number of an interface without a program, and a program.
template <typename Body>
void with_interface_and_program(const Body& body) {
  bool is_run = false;
  const bool is_made = in_own_network([&] {
    const int lo = static_cast<int>(interface_index("lo"));
    const int program = load_program();
    const int link = program < 0 ? -1 : attach_as_another(lo, program);
    if (link < 0) return;
    ::close(link);
    is_run = true;
    body(lo, program);
    ::close(program);
  });
  if (!is_made || !is_run) GTEST_SKIP() << "no network namespace, XDP or bpf_link here";
}

// The linker exports none of the two by itself, and DPDK's driver would call libbpf's.
TEST(XdpAttachment, ADriverThatIsLoadedFindsIt) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "bpf_xdp_attach"), reinterpret_cast<void*>(&bpf_xdp_attach));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "bpf_xdp_detach"), reinterpret_cast<void*>(&bpf_xdp_detach));
}

TEST(XdpAttachment, AttachesAndDetaches) {
  with_interface_and_program([](int interface_index, int program) {
    const auto index = static_cast<uint32_t>(interface_index);
    EXPECT_EQ(xdp_program_of(index), 0u);
    EXPECT_EQ(bpf_xdp_attach(interface_index, program, XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr), 0);
    EXPECT_NE(xdp_program_of(index), 0u);
    EXPECT_EQ(bpf_xdp_detach(interface_index, XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr), 0);
    EXPECT_EQ(xdp_program_of(index), 0u);
  });
}

TEST(XdpAttachment, ASecondAttachFailsAndTakesNothingAway) {
  with_interface_and_program([](int interface_index, int program) {
    const auto index = static_cast<uint32_t>(interface_index);
    ASSERT_EQ(bpf_xdp_attach(interface_index, program, XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr), 0);
    const int other = load_program();
    EXPECT_EQ(bpf_xdp_attach(interface_index, other, XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr), -EBUSY);
    EXPECT_NE(xdp_program_of(index), 0u);
    EXPECT_EQ(bpf_xdp_detach(interface_index, 0, nullptr), 0);
    ::close(other);
  });
}

// A start that failed took the XDP program of the daemon that ran away from the interface.
TEST(XdpAttachment, LeavesTheProgramOfAnother) {
  with_interface_and_program([](int interface_index, int program) {
    const auto index = static_cast<uint32_t>(interface_index);
    const int link = attach_as_another(interface_index, program);
    const uint32_t id = xdp_program_of(index);
    EXPECT_NE(id, 0u);
    EXPECT_EQ(bpf_xdp_attach(interface_index, program, XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr),
              -EBUSY);
    EXPECT_EQ(bpf_xdp_detach(interface_index, XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr), 0);
    EXPECT_EQ(xdp_program_of(index), id);
    ::close(link);
  });
}

// After a crash the program stayed, and the next start failed.
TEST(XdpAttachment, EndsWithAProcessThatIsKilled) {
  with_interface_and_program([](int interface_index, int program) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int rc = bpf_xdp_attach(interface_index, program, XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr);
      if (rc == 0) ::kill(::getpid(), SIGKILL);
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "not attached";
    EXPECT_EQ(xdp_program_of(static_cast<uint32_t>(interface_index)), 0u);
  });
}

// A child that was forked meanwhile has the link's descriptor as well.
TEST(XdpAttachment, EndsAlthoughAChildHasTheDescriptor) {
  with_interface_and_program([](int interface_index, int program) {
    ASSERT_EQ(bpf_xdp_attach(interface_index, program, XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(1);
    }
    EXPECT_EQ(bpf_xdp_detach(interface_index, 0, nullptr), 0);
    EXPECT_EQ(xdp_program_of(static_cast<uint32_t>(interface_index)), 0u);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  });
}

}  // namespace
}  // namespace lyre::io::dpdk

#include "daemon/host/port_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lyre {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PortSockets : public ::testing::Test {
 protected:
  PortSockets() {
    char name[] = "/tmp/lyre-ports-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~PortSockets() override { std::filesystem::remove_all(directory_); }

  std::string complaint_at(mode_t mode, SocketDirectoryRule rule) const {
    EXPECT_EQ(::chmod(directory_.c_str(), mode), 0);
    const Status status = check_socket_directory(directory_, rule);
    return status.ok() ? "" : status.error().text;
  }

  Config config_with(const std::string& device) const {
    auto config =
        parse_config("[daemon]\nsocket_group = \"\"\n[[port]]\nname = \"a\"\ndevice = \"" + device +
                         "\"\naddress = \"10.9.0.1/24\"\n",
                     "f.toml");
    EXPECT_TRUE(config.ok()) << config.error().text;
    return *config;
  }
  Config memif_in(const std::string& directory) const {
    return config_with("net_memif0,role=server,socket=" + directory + "/a.sock");
  }

  static std::string text_of(const Status& status) {
    return status.ok() ? "" : status.error().text;
  }
  static std::string text_of(const std::vector<Error>& errors) {
    return errors.empty() ? "" : errors.front().text;
  }

  std::string directory_;
  const SocketDirectoryRule own_{.owner = ::geteuid(), .clients_groups = {::getegid()}};
  const SocketDirectoryRule peers_{.owner = ::geteuid(), .clients_groups = {::getegid() + 1}};
};

TEST_F(PortSockets, ADirectoryKeepsClientsAndOthersOut) {
  EXPECT_EQ(complaint_at(0700, own_), "");
  EXPECT_THAT(complaint_at(0710, own_), HasSubstr("has mode 0710, open to group"));
  EXPECT_THAT(complaint_at(0701, own_), HasSubstr("has mode 0701, open to others, allowed: "));
  EXPECT_THAT(complaint_at(01777, own_), HasSubstr("has mode 1777, open to others"));
}

TEST_F(PortSockets, AGroupOfPeersMayEnter) {
  EXPECT_EQ(complaint_at(0770, peers_), "");
  EXPECT_THAT(complaint_at(0775, peers_), HasSubstr("open to others"));
}

TEST_F(PortSockets, SomebodyElsesDirectoryIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  ASSERT_EQ(::chown(directory_.c_str(), 54321, ::getegid()), 0);
  EXPECT_THAT(complaint_at(0700, own_), HasSubstr("belongs to uid 54321"));
}

TEST_F(PortSockets, OnlyTheLastDirectoryIsMade) {
  const std::string made = directory_ + "/ports";
  EXPECT_EQ(text_of(check_port_sockets(memif_in(made))), "");
  EXPECT_FALSE(std::filesystem::exists(made)) << "a check made it";
  EXPECT_EQ(text_of(prepare_port_sockets(memif_in(made))), "");
  struct stat file {};
  ASSERT_EQ(::stat(made.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0700u);
  EXPECT_EQ(text_of(prepare_port_sockets(memif_in(made))), "") << "there already";
  EXPECT_THAT(text_of(prepare_port_sockets(memif_in(directory_ + "/no/ports"))),
              HasSubstr("No such file or directory"));
}

TEST_F(PortSockets, AComplaintNamesTheLineAndThePort) {
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  EXPECT_THAT(text_of(check_port_sockets(memif_in(directory_))),
              AllOf(HasSubstr("f.toml:5: port.device: 'net_memif0,role=server"),
                    HasSubstr("of 'a': the socket's directory " + directory_)));
}

TEST_F(PortSockets, AFileIsNoDirectory) {
  std::ofstream(directory_ + "/file") << "x";
  EXPECT_THAT(text_of(prepare_port_sockets(memif_in(directory_ + "/file"))),
              HasSubstr("Not a directory"));
}

TEST_F(PortSockets, NamesThatNoDirectoryProtectsAreRefused) {
  const std::string abstract = "net_memif0,socket=" + directory_ + "/a.sock,socket-abstract=yes";
  EXPECT_THAT(text_of(check_port_sockets(config_with(abstract))), HasSubstr("socket-abstract=yes"));
  EXPECT_THAT(text_of(check_port_sockets(config_with("net_memif0,role=server"))),
              HasSubstr("allowed: an absolute path"));
  EXPECT_EQ(text_of(check_port_sockets(config_with("net_tap0,iface=lyre0"))), "");
}

}  // namespace
}  // namespace lyre

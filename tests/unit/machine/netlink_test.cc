#include "machine/netlink.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

#include "tests/unit/machine/netlink_messages.h"

namespace lyre::machine {
namespace {

TEST(Netlink, PartsAreReadOneBehindTheOther) {
  const std::string attributes = with_type(1, "a") + with_type(NLA_F_NESTED | 2, "bcdef");
  const std::string bytes =
      netlink_message(RTM_NEWROUTE, uint32_t{7}, attributes) + netlink_message(9, uint32_t{8}, "");
  const auto messages = messages_in(bytes);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].type, RTM_NEWROUTE);
  EXPECT_EQ(from_bytes<uint32_t>(messages[0].value), 7u);
  EXPECT_EQ(from_bytes<uint32_t>(messages[1].value), 8u);
  const auto parts = attributes_in(messages[0].value.substr(sizeof(uint32_t)));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(attribute(parts, 1), "a");
  EXPECT_EQ(attribute(parts, 2), "bcdef");
  EXPECT_EQ(attribute(parts, 3), "");
}

TEST(Netlink, WhatIsNotWholeIsLeftOut) {
  const std::string attributes = with_type(1, "abcd") + with_type(2, "efgh");
  const std::string bytes =
      netlink_message(1, uint32_t{7}, "") + netlink_message(2, uint32_t{8}, attributes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_LE(messages_in(bytes.substr(0, size)).size(), 1u) << size;
  }
  for (size_t size = 0; size < attributes.size(); ++size) {
    EXPECT_LE(attributes_in(attributes.substr(0, size)).size(), 1u) << size;
  }
  EXPECT_TRUE(attributes_in(std::string(8, '\0')).empty()) << "a length of 0 would not end";
  EXPECT_TRUE(messages_in(std::string(64, '\0')).empty());
  EXPECT_EQ(from_bytes<uint32_t>("abc"), 0u);
}

TEST(Netlink, ADumpEndsWithDone) {
  const std::string first = netlink_message(RTM_NEWROUTE, uint32_t{7}, "");
  const std::string second = netlink_message(RTM_NEWROUTE, uint32_t{8}, "");
  NetlinkDump dump;
  EXPECT_TRUE(add_datagram(first, dump));
  EXPECT_FALSE(dump.has_ended) << "further datagrams come";
  EXPECT_TRUE(add_datagram(second + netlink_message(NLMSG_DONE, int32_t{0}, ""), dump));
  EXPECT_TRUE(dump.has_ended);
  EXPECT_FALSE(dump.was_interrupted);
  EXPECT_EQ(dump.messages, first + second);
}

TEST(Netlink, ADumpMayBeRefused) {
  const std::string message = netlink_message(RTM_NEWROUTE, uint32_t{7}, "");
  NetlinkDump at_once, at_the_end;
  EXPECT_FALSE(add_datagram(netlink_message(NLMSG_ERROR, int32_t{-EPERM}, ""), at_once));
  EXPECT_FALSE(
      add_datagram(message + netlink_message(NLMSG_DONE, int32_t{-EOPNOTSUPP}, ""), at_the_end));
}

TEST(Netlink, ADumpMayBeInterrupted) {
  const auto is_interrupted_by = [](const std::string& datagram) {
    NetlinkDump dump;
    return add_datagram(datagram, dump) && dump.was_interrupted;
  };
  const std::string whole = netlink_message(RTM_NEWROUTE, uint32_t{7}, "");
  EXPECT_FALSE(is_interrupted_by(whole));
  EXPECT_TRUE(
      is_interrupted_by(netlink_message(RTM_NEWROUTE, uint32_t{7}, "", NLM_F_DUMP_INTR) + whole));
  EXPECT_TRUE(
      is_interrupted_by(whole + netlink_message(NLMSG_DONE, int32_t{0}, "", NLM_F_DUMP_INTR)));
}

TEST(Netlink, TheKernelHasALoopback) {
  const auto dump = netlink_dump(RTM_GETLINK, AF_UNSPEC);
  if (!dump) GTEST_SKIP() << "the kernel may not be asked here";
  InterfaceNames names({{77, "rail0"}});
  bool is_there = false;
  for (const NetlinkPart& message : messages_in(*dump)) {
    const auto header = from_bytes<ifinfomsg>(message.value);
    is_there = is_there || names.name_of(static_cast<uint32_t>(header.ifi_index)) == "lo";
  }
  EXPECT_TRUE(is_there);
  EXPECT_EQ(names.name_of(77), "rail0");
  EXPECT_EQ(names.name_of(0), "");
}

}  // namespace
}  // namespace lyre::machine

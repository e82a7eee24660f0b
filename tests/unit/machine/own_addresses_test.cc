#include "machine/own_addresses.h"

#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "tests/unit/machine/netlink_messages.h"

namespace lyre::machine {
namespace {

std::vector<OwnAddress> own_in(const std::string& dump) {
  InterfaceNames names({{2, "eth0"}});
  return addresses_in(dump, names);
}

ifaddrmsg address_header(uint8_t family, uint8_t bits, uint8_t flags) {
  return {.ifa_family = family, .ifa_prefixlen = bits, .ifa_flags = flags, .ifa_index = 2};
}

// A further address of IPv4 has the flag that a temporary one of IPv6 has.
TEST(OwnAddresses, OfIpv4AreToKeep) {
  const std::string own = with_type(IFA_ADDRESS, std::string("\x0a\x00\x01\x01", 4)) +
                          with_type(IFA_LOCAL, std::string("\x0a\x00\x01\x05", 4));
  const auto found =
      own_in(netlink_message(RTM_NEWADDR, address_header(AF_INET, 24, IFA_F_SECONDARY), own));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(text_of(found[0].address), "10.0.1.5") << "not the peer's";
  EXPECT_EQ(found[0].interface, "eth0");
  EXPECT_EQ(found[0].bits, kMappedBits + 24);
  EXPECT_EQ(found[0].passing, "");
}

TEST(OwnAddresses, OfIpv6MayPass) {
  const std::string own = with_type(IFA_ADDRESS, "\xfd" + std::string(14, '\0') + "\x05");
  const auto passing_with = [&own](uint8_t in_header, uint32_t flags) {
    const std::string all = own + (flags == 0 ? "" : with_type(IFA_FLAGS, raw(flags)));
    const auto found =
        own_in(netlink_message(RTM_NEWADDR, address_header(AF_INET6, 64, in_header), all));
    return found.size() == 1 && text_of(found[0].address) == "fd00::5" && found[0].bits == 64
               ? found[0].passing
               : "not read";
  };
  EXPECT_EQ(passing_with(IFA_F_PERMANENT, 0), "");
  EXPECT_EQ(passing_with(IFA_F_TEMPORARY, 0), "temporary");
  EXPECT_EQ(passing_with(0, IFA_F_TEMPORARY | IFA_F_DEPRECATED), "temporary");
  EXPECT_EQ(passing_with(0, IFA_F_DEPRECATED), "deprecated");
  EXPECT_EQ(passing_with(0, IFA_F_TENTATIVE | IFA_F_DADFAILED), "a duplicate");
  EXPECT_EQ(passing_with(0, IFA_F_TENTATIVE), "tentative");
  EXPECT_EQ(passing_with(0, IFA_F_NOPREFIXROUTE), "");
}

TEST(OwnAddresses, AnInterfaceThatWentHasNone) {
  ifaddrmsg header = address_header(AF_INET, 24, 0);
  const std::string own = with_type(IFA_LOCAL, std::string("\x0a\x00\x01\x05", 4));
  EXPECT_EQ(own_in(netlink_message(RTM_NEWADDR, header, own)).size(), 1u);
  header.ifa_index = 0x7fffffff;
  EXPECT_TRUE(own_in(netlink_message(RTM_NEWADDR, header, own)).empty());
}

}  // namespace
}  // namespace lyre::machine

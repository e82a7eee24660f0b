#include "libclient/ready_list.h"

#include <gtest/gtest.h>

#include "libclient/listener.h"

namespace lyre::client {
namespace {

TEST(ReadyList, EventsComeInTheOrderOfTheirFirst) {
  ReadyList ready;
  lyre_session first(nullptr);
  lyre_listener second(nullptr);
  ready.mark(&first, LYRE_EVENT_CONNECTED);
  ready.mark(&second, LYRE_EVENT_ACCEPTABLE);
  ready.mark(&first, LYRE_EVENT_DATA);

  lyre_event event = ready.first();
  EXPECT_EQ(event.session, &first);
  EXPECT_EQ(event.listener, nullptr);
  EXPECT_EQ(event.happened, static_cast<uint32_t>(LYRE_EVENT_CONNECTED | LYRE_EVENT_DATA));
  ready.drop_first();

  event = ready.first();
  EXPECT_EQ(event.session, nullptr);
  EXPECT_EQ(event.listener, &second);
  EXPECT_EQ(event.happened, static_cast<uint32_t>(LYRE_EVENT_ACCEPTABLE));
  ready.drop_first();
  EXPECT_EQ(ready.first().happened, 0u);
}

TEST(ReadyList, AnItemLeavesFromAnyPlace) {
  lyre_session items[] = {lyre_session(nullptr), lyre_session(nullptr), lyre_session(nullptr)};
  for (int leaving = 0; leaving < 3; ++leaving) {
    SCOPED_TRACE(leaving);
    ReadyList ready;
    for (lyre_session& item : items) ready.mark(&item, LYRE_EVENT_DATA);
    ready.unmark(&items[leaving]);
    ready.unmark(&items[leaving]);  // not in the list: no effect
    for (int i = 0; i < 3; ++i) {
      if (i == leaving) continue;
      EXPECT_EQ(ready.first().session, &items[i]);
      ready.drop_first();
    }
    EXPECT_EQ(ready.first().happened, 0u);
  }
}

TEST(ReadyList, NewsIsTakenOnce) {
  ReadyList ready;
  EXPECT_FALSE(ready.take_news());
  lyre_session item(nullptr);
  ready.mark(&item, LYRE_EVENT_SENT);
  EXPECT_TRUE(ready.has_news());
  EXPECT_TRUE(ready.take_news());
  EXPECT_FALSE(ready.take_news());
  ready.note_news();
  EXPECT_TRUE(ready.take_news());
  EXPECT_EQ(ready.first().session, &item);  // an event stays until it is dropped
  ready.drop_first();
}

}  // namespace
}  // namespace lyre::client

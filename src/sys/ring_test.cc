// io_uring: reads complete with the right bytes, waits end by events and by wake().
#include "sys/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/test_folder.h"
#include "sys/file.h"

namespace forebay::sys {
namespace {

TEST(Ring, CanBeDisabledByTheEnvironment) {
  setenv("FOREBAY_DISABLE_IO_URING", "1", 1);
  const auto ring = Ring::open(4);
  unsetenv("FOREBAY_DISABLE_IO_URING");
  ASSERT_FALSE(ring.ok());
  EXPECT_EQ(ring.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(ring.error().message, testing::HasSubstr("FOREBAY_DISABLE_IO_URING"));
}

class RingTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Ring::open(8);
    if (!opened.ok()) GTEST_SKIP() << opened.error().message;
    ring_ = std::move(opened).take();
    path_ = folder_ / "data";
    std::ofstream(path_) << "0123456789abcdef";
    fd_ = open_file(kCurrentFolder, path_, OpenMode::kRead).take();
  }

  const base::TestFolder folder_{"ring"};
  std::unique_ptr<Ring> ring_;
  std::string path_;
  ScopedFd fd_;
};

TEST_F(RingTest, EveryReadCompletesOnceWithItsBytes) {
  std::vector<std::byte> memory(8 * 4);
  const bool registered = ring_->register_buffer(memory).ok();
  for (uint64_t i = 0; i < 8; ++i) {
    ring_->prepare({fd_.get(), std::span(memory).subspan(i * 4, 4), i * 2, i, registered});
  }
  std::vector<int> seen(8);
  for (size_t done = 0; done < 8;) {
    std::array<RingEvent, 3> events;
    const size_t count = ring_->enter(events, true).take();
    for (size_t i = 0; i < count; ++i) {
      const uint64_t tag = events[i].tag;
      ++seen[tag];
      const std::string text(reinterpret_cast<char*>(memory.data()) + tag * 4, 4);
      const size_t expected = std::min<size_t>(4, 16 - tag * 2);
      EXPECT_EQ(events[i].result, static_cast<int64_t>(expected));
      EXPECT_EQ(text.substr(0, expected),
                std::string("0123456789abcdef").substr(tag * 2, expected));
    }
    done += count;
  }
  EXPECT_EQ(seen, std::vector<int>(8, 1));
}

TEST_F(RingTest, ErrorsArriveAsNegativeErrno) {
  std::array<std::byte, 4> out;
  ring_->prepare({-1, out, 0, 7, false});
  std::array<RingEvent, 1> events;
  size_t count = 0;
  while (count == 0) count = ring_->enter(events, true).take();
  EXPECT_EQ(events[0].result, -EBADF);
}

TEST_F(RingTest, WakeEndsAWaitWithoutEvents) {
  std::jthread waker([&] { ring_->wake(); });
  std::array<RingEvent, 1> events;
  EXPECT_EQ(*ring_->enter(events, true), 0u);
  waker.join();
  ring_->wake();
  EXPECT_EQ(*ring_->enter(events, true), 0u);
}

}  // namespace
}  // namespace forebay::sys

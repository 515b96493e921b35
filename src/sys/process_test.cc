// What the kernel says about this process and the page cache.
#include "sys/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/test_folder.h"
#include "sys/host.h"
#include "sys/page_cache.h"
#include "sys/stop_signal.h"

namespace forebay::sys {
namespace {

TEST(Process, UsageGrowsWithWork) {
  const double before = process_usage().cpu_seconds();
  volatile uint64_t x = 1;
  const int64_t start = thread_cpu_ns();
  while (thread_cpu_ns() - start < 30'000'000) x = x * 3 + 1;
  EXPECT_GE(process_usage().cpu_seconds() - before, 0.02);
}

TEST(Process, PeakFollowsAnAllocation) {
  if (!reset_peak_resident()) GTEST_SKIP() << "this kernel does not reset the peak";
  const uint64_t before = peak_resident_bytes();
  std::vector<char> block(64 << 20, 1);
  EXPECT_GE(peak_resident_bytes(), before + (60u << 20)) << block[12345];
}

TEST(Host, SaysWhatIsThere) {
  const Host here = host();
  EXPECT_FALSE(here.name.empty());
  EXPECT_GE(here.cpu_count, 1);
  EXPECT_GT(here.memory_limit_bytes, 1u << 20);
  EXPECT_LE(here.memory_limit_bytes, here.memory_bytes);
}

TEST(PageCache, EvictedFileIsReportedAsAbsentAndLoadedAsPresent) {
  std::string path =
      base::source_folder() + "/build/page_cache_" + std::to_string(process_id()) + ".bin";
  std::ofstream(path) << std::string(1 << 20, 'x');
  if (is_memory_file_system(path)) GTEST_SKIP() << "the build folder lies in memory";
  ASSERT_TRUE(evict_from_page_cache(path).ok());
  const auto evicted = cached_bytes(path);
  if (!evicted.ok()) GTEST_SKIP() << evicted.error().message;
  EXPECT_EQ(evicted->cached_bytes, 0u);
  EXPECT_EQ(*load_into_page_cache(path), 1u << 20);
  EXPECT_EQ(cached_bytes(path)->cached_bytes, 1u << 20);
  unlink(path.c_str());
}

TEST(PageCache, MissingFileIsNotFound) {
  EXPECT_EQ(cached_bytes("/nonexistent/file").error().code, ErrorCode::kNotFound);
}

TEST(StopSignal, TurnsSigintIntoAStopRequest) {
  StopSignal signal;
  EXPECT_FALSE(signal.was_requested());
  kill(getpid(), SIGINT);
  const int64_t forever = base::monotonic_clock().now_ns() + 60'000'000'000;
  EXPECT_FALSE(base::monotonic_clock().sleep_until_ns(forever, signal.token()));
}

}  // namespace
}  // namespace forebay::sys

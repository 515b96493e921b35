// Limits read from trees of files as kernels and containers show them.
#include "sys/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/test_folder.h"

namespace forebay::sys {
namespace {

class Cgroup : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  CgroupLimits limits() const { return read_cgroup_limits(folder_ / "proc", folder_ / "mount"); }

  const base::TestFolder folder_{"cgroup"};
};

TEST_F(Cgroup, WithoutAnyThereIsNoLimit) {
  EXPECT_EQ(limits().cpus, 0);
  EXPECT_EQ(limits().memory_bytes, 0u);
}

TEST_F(Cgroup, Version2TakesTheLeastOfAGroupAndThoseAbove) {
  put("proc/cgroup", "0::/jobs/one/step");
  put("mount/jobs/one/step/cpu.max", "max 100000");
  put("mount/jobs/one/step/memory.max", "8589934592");
  put("mount/jobs/one/cpu.max", "150000 100000");
  put("mount/jobs/one/memory.max", "max");
  put("mount/jobs/cpu.max", "400000 100000");
  put("mount/jobs/memory.max", "4294967296");
  EXPECT_EQ(limits().cpus, 1.5);
  EXPECT_EQ(limits().memory_bytes, 4294967296u);
}

TEST_F(Cgroup, Version2InAContainerIsTheRootOfTheMount) {
  put("proc/cgroup", "0::/");
  put("mount/cpu.max", "50000 100000");
  put("mount/memory.max", "1073741824");
  EXPECT_EQ(limits().cpus, 0.5);
  EXPECT_EQ(limits().memory_bytes, 1073741824u);
}

TEST_F(Cgroup, Version1HasAFolderForEachController) {
  put("proc/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/x");
  put("mount/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000");
  put("mount/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000");
  put("mount/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  put("mount/memory/docker/abc/memory.limit_in_bytes", "2147483648");
  put("mount/memory/memory.limit_in_bytes", "9223372036854771712");  // no limit
  EXPECT_EQ(limits().cpus, 2.5);
  EXPECT_EQ(limits().memory_bytes, 2147483648u);
}

// The container's mount shows its own group as the root, under a path of the host's that is not
// there.
TEST_F(Cgroup, Version1InAContainerIsTheRootOfTheMount) {
  put("proc/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc");
  put("mount/cpu/cpu.cfs_quota_us", "100000");
  put("mount/cpu/cpu.cfs_period_us", "100000");
  put("mount/memory/memory.limit_in_bytes", "536870912");
  EXPECT_EQ(limits().cpus, 1);
  EXPECT_EQ(limits().memory_bytes, 536870912u);
}

}  // namespace
}  // namespace forebay::sys

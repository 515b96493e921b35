// Against a library with NVML's interface and known figures.
#include "sys/gpu_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::sys {
namespace {

TEST(GpuLibrary, ReadsEveryDeviceAndSlice) {
  const auto library = GpuLibrary::open(FOREBAY_TEST_NVML);
  ASSERT_TRUE(library.ok()) << library.error().message;
  const auto& devices = (*library)->devices();
  ASSERT_EQ(devices.size(), 3);
  EXPECT_EQ(devices[0].name, "NVIDIA H200");
  EXPECT_TRUE(devices[2].is_mig_slice);
  EXPECT_EQ(devices[2].name, "NVIDIA H200 MIG 1g.18gb");

  const GpuReading card = (*library)->read(0);
  EXPECT_DOUBLE_EQ(*card.busy_share, 0.87);
  EXPECT_EQ(*card.used_bytes, uint64_t{1} << 30);
  EXPECT_DOUBLE_EQ(*card.power_watts, 349.21);
  EXPECT_DOUBLE_EQ(*card.energy_joules, 5000.5);
  EXPECT_DOUBLE_EQ(*card.pcie_received_bytes_per_second, 2000 * 1024.0);
  EXPECT_DOUBLE_EQ(*card.pcie_sent_bytes_per_second, 100 * 1024.0);

  const GpuReading slice = (*library)->read(2);  // what it does not tell is absent, not 0
  EXPECT_FALSE(slice.busy_share.has_value());
  EXPECT_FALSE(slice.power_watts.has_value());
  EXPECT_EQ(*slice.used_bytes, uint64_t{1} << 30);
}

TEST(GpuLibrary, SaysWhatIsMissing) {
  const auto none = GpuLibrary::open("libno-such-nvml.so.1");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, testing::HasSubstr("no NVIDIA driver"));
}

}  // namespace
}  // namespace forebay::sys

#include "sys/launcher.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace forebay::sys {
namespace {

std::optional<Launch> in(const std::map<std::string, std::string>& environment) {
  return launched_by([&](const char* name) -> const char* {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

TEST(Launcher, MpirunSaysRankAndSize) {
  const auto launch = in({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 4);
}

TEST(Launcher, OneProcessIsNoLaunch) {
  EXPECT_FALSE(in({}));
  EXPECT_FALSE(in({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
  EXPECT_FALSE(in({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}));
}

TEST(Launcher, AnAllocationOfSlurmAloneIsNoLaunch) {
  EXPECT_FALSE(in({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}));
  EXPECT_FALSE(in({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_NPROCS", "8"}}));
  // srun --mpi=none: each task is to run by itself.
  EXPECT_FALSE(in({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "2"}}));
}

TEST(Launcher, SrunWithPmiIsALaunch) {
  const auto launch =
      in({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "2"}, {"PMIX_RANK", "2"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->size, 8);
  EXPECT_EQ(launch->launcher, "srun");
  EXPECT_FALSE(in({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}}));
}

TEST(Launcher, PmixAloneLeavesTheSizeOpen) {
  const auto launch = in({{"PMIX_RANK", "1"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->size, 0);
}

TEST(Launcher, NonsenseIsNoLaunch) {
  EXPECT_FALSE(in({{"PMI_SIZE", "many"}, {"PMI_RANK", "0"}}));
  EXPECT_FALSE(in({{"PMI_SIZE", "4"}, {"PMI_RANK", "-1"}}));
}

}  // namespace
}  // namespace forebay::sys

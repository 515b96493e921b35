// From the text a user types to a store with options, or to an error that helps.
#include "storage/options.h"
#include "base/test_folder.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/store_test_support.h"

namespace forebay::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(StoreSpec, NameAndOptions) {
  const StoreSpec spec = parse_store_spec("slow:latency=5ms, iops = 500").take();
  EXPECT_EQ(spec.name, "slow");
  EXPECT_THAT(spec.options, ElementsAre(Pair("latency", "5ms"), Pair("iops", "500")));
  EXPECT_TRUE(parse_store_spec("local").take().options.empty());
  EXPECT_TRUE(parse_store_spec("local:").take().options.empty());
}

TEST(StoreSpec, ABareStoreBelowMayStandAnywhere) {
  const StoreSpec spec = parse_store_spec("slow:over=memory,latency=5ms").take();
  EXPECT_THAT(spec.options, ElementsAre(Pair("over", "memory"), Pair("latency", "5ms")));
}

TEST(StoreSpec, AStoreBelowWithOptionsTakesTheRest) {
  const StoreSpec spec =
      parse_store_spec("faulty:every=7,over=slow:latency=5ms,over=uring:direct=true").take();
  EXPECT_THAT(spec.options, ElementsAre(Pair("every", "7"),
                                        Pair("over", "slow:latency=5ms,over=uring:direct=true")));
}

TEST(StoreSpec, WhatIsNoOptionIsNamed) {
  for (const char* text : {"slow:5ms", "slow:latency=5ms,,", "slow:latency=5ms,fast"}) {
    const auto spec = parse_store_spec(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(spec.error().message, HasSubstr("is not key=value"));
  }
}

std::string error_of(const std::string& spec) {
  const base::TestFolder folder("options");
  const auto store = open_store(spec, folder.path());
  EXPECT_FALSE(store.ok()) << spec;
  if (store.ok()) return "";
  EXPECT_EQ(store.error().code, ErrorCode::kInvalidArgument) << store.error().message;
  return store.error().message;
}

TEST(OpenStore, TimesBeyondAnHourAreRefusedByName) {
  for (const std::string start :
       {"slow:latency=", "slow:distribution=exponential,jitter=",
        "slow:latency=1ms,distribution=lognormal,p99=", "faulty:kind=delay,delay="}) {
    const std::string key = start.substr(start.find_last_of(":,") + 1);
    EXPECT_THAT(error_of(start + "1e9s"), HasSubstr(key + "1e9s: must be at most 1 h"));
    EXPECT_THAT(error_of(start + "3601s"), HasSubstr("must be at most 1 h"));
    const base::TestFolder folder("options");
    EXPECT_TRUE(open_store(start + "1h", folder.path()).ok()) << start;
  }
  EXPECT_THAT(error_of("slow:iops=1e-9"), HasSubstr("iops=1e-9: must be 0"));
}

TEST(OpenStore, UnknownNamesAndKeysAreNamedWithTheNearest) {
  EXPECT_EQ(error_of("urng"),
            "no storage named 'urng'; did you mean 'uring'? (known: direct, faulty, local, memory, "
            "null, s3, slow, uring)");
  EXPECT_THAT(error_of("slow:latancy=5ms"),
              HasSubstr("no option of storage 'slow' named 'latancy'; did you mean 'latency'?"));
  EXPECT_THAT(error_of("memory:size=5"), HasSubstr("'memory' has no options"));
  EXPECT_THAT(error_of("slow:over=memry"), HasSubstr("did you mean 'memory'?"));
}

TEST(OpenStore, ValuesAreCheckedBeforeAnythingRuns) {
  EXPECT_THAT(error_of("slow:latency=fast"), HasSubstr("storage 'slow': latency=fast"));
  EXPECT_THAT(error_of("slow:latency=1ms,latency=2ms"), HasSubstr("'latency' is given twice"));
  EXPECT_THAT(error_of("slow:latency=-1ms"), HasSubstr("latency=-1ms"));
  EXPECT_THAT(error_of("slow:concurrency=-1"), HasSubstr("must be 0 to"));
  EXPECT_THAT(error_of("slow:distribution=normal"), HasSubstr("lognormal"));
  EXPECT_THAT(error_of("slow:jitter=1ms"), HasSubstr("jitter has no effect"));
  EXPECT_THAT(error_of("slow:latency=1ms,distribution=uniform,jitter=2ms"), HasSubstr("negative"));
  EXPECT_THAT(error_of("slow:p99=9ms"), HasSubstr("lognormal"));
  EXPECT_THAT(error_of("slow:distribution=lognormal,latency=5ms,p99=1ms"), HasSubstr("below"));
  EXPECT_THAT(error_of("uring:direct=maybe"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("local:piece=1"), HasSubstr("must be 4096 to"));
  EXPECT_THAT(error_of("null:name=fixed"), HasSubstr("{i}"));
  EXPECT_THAT(error_of("faulty:chance=2"), HasSubstr("chance=2"));
}

TEST(OpenStore, RatesAreSizesWithOrWithoutASecond) {
  for (const char* rate : {"150MB", "150MB/s", "0"})
    EXPECT_TRUE(open_store(fmt::format("slow:bandwidth={},over=memory", rate), "x").ok()) << rate;
  const auto wrong = open_store("slow:bandwidth=fast/s,over=memory", "x");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, HasSubstr("bandwidth"));
}

TEST(OpenStore, StoresNest) {
  const auto store = open_store("faulty:every=0,over=slow:latency=0s,over=memory", "label").take();
  EXPECT_EQ(store->describe(), "faulty:slow:memory:label");
  put(*store, "f", "x");
  EXPECT_EQ(get(*store, "f"), "x");
}

}  // namespace
}  // namespace forebay::storage

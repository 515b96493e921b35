// Where the s3 driver finds its settings and its keys.
#include "storage/s3_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "storage/s3_profile.h"

namespace forebay::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct World {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> files;

  S3Surroundings surroundings() const {
    return {.variable = [this](const std::string& name) -> std::optional<std::string> {
              const auto found = variables.find(name);
              if (found == variables.end()) return std::nullopt;
              return found->second;
            },
            .file = [this](const std::string& path) -> Result<std::string> {
              const auto found = files.find(path);
              if (found == files.end()) return fail(ErrorCode::kNotFound, "{}: none", path);
              return found->second;
            }};
  }
  Result<S3Config> read(const OptionValues& values = {},
                        const std::string& root = "s3://bucket/p") const {
    return read_s3_config(root, values, surroundings());
  }
};

constexpr const char* kCredentials =
    "# a comment\n[default]\naws_access_key_id = AKD\naws_secret_access_key = SKD\n"
    "[other]\naws_access_key_id=AKO\naws_secret_access_key=SKO\naws_session_token=TKO\n";
constexpr const char* kProfiles =
    "[default]\nregion = eu-west-1\n[profile other]\nregion = eu-west-2\ns3 =\n"
    "  addressing_style = path\n  endpoint_url = http://ceph:8480\n"
    "[profile process]\ncredential_process = /bin/keys\n";

TEST(S3Config, OptionsComeBeforeTheEnvironmentBeforeProfiles) {
  World world;
  world.variables = {{"HOME", "/home/me"}};
  world.files = {{"/home/me/.aws/credentials", kCredentials}, {"/home/me/.aws/config", kProfiles}};
  S3Config config = world.read().take();
  EXPECT_EQ(config.credentials.access_key_id, "AKD");
  EXPECT_EQ(config.region, "eu-west-1");
  EXPECT_EQ(config.endpoint.text(), "https://s3.eu-west-1.amazonaws.com");
  EXPECT_FALSE(config.is_path_style);
  EXPECT_EQ(config.describe(), "s3://bucket/p at https://s3.eu-west-1.amazonaws.com");
  world.variables["AWS_ACCESS_KEY_ID"] = "AKE";
  world.variables["AWS_SECRET_ACCESS_KEY"] = "SKE";
  world.variables["AWS_DEFAULT_REGION"] = "env-1";
  world.variables["AWS_ENDPOINT_URL"] = "http://env:1";
  config = world.read().take();
  EXPECT_EQ(config.credentials.access_key_id, "AKE");
  EXPECT_EQ(config.region, "env-1");
  EXPECT_EQ(config.endpoint.text(), "http://env:1");
  EXPECT_TRUE(config.is_path_style);
  world.variables["AWS_ENDPOINT_URL_S3"] = "http://env:2";
  world.variables["AWS_REGION"] = "env-2";
  config = world.read({{"access_key_id", "AKX"}, {"secret_access_key", "SKX"}, {"region", "opt"}})
               .take();
  EXPECT_EQ(config.credentials.access_key_id, "AKX");
  EXPECT_EQ(config.credentials.secret_access_key, "SKX");
  EXPECT_EQ(config.region, "opt");
  EXPECT_EQ(config.endpoint.text(), "http://env:2");
  // A profile that is asked for by name comes before variables that happen to be set.
  config = world.read({{"profile", "other"}}).take();
  EXPECT_EQ(config.credentials.access_key_id, "AKO");
  EXPECT_EQ(config.credentials.session_token, "TKO");
}

TEST(S3Config, ProfilesNameServersToo) {
  World world;
  world.variables = {
      {"AWS_PROFILE", "other"}, {"AWS_SHARED_CREDENTIALS_FILE", "/c"}, {"AWS_CONFIG_FILE", "/p"}};
  world.files = {{"/c", kCredentials}, {"/p", kProfiles}};
  const S3Config config = world.read().take();
  EXPECT_EQ(config.credentials.access_key_id, "AKO");
  EXPECT_EQ(config.endpoint.text(), "http://ceph:8480");
  EXPECT_TRUE(config.is_path_style);
  EXPECT_THAT(world.read({{"profile", "none"}}).error().message,
              AllOf(HasSubstr("no profile 'none'"), HasSubstr("/c"), HasSubstr("/p")));
  EXPECT_THAT(world.read({{"profile", "process"}}).error().message,
              HasSubstr("export-credentials"));
}

TEST(S3Config, WithoutKeysItSaysWhereItLooked) {
  World world;
  world.variables = {{"HOME", "/h"}};
  const Error error = world.read().error();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), HasSubstr("/h/.aws/credentials"),
                                   HasSubstr("storage_options"), HasSubstr("anonymous=true")));
  EXPECT_TRUE(world.read({{"anonymous", "true"}})->credentials.is_anonymous);
  EXPECT_THAT(world.read({{"access_key_id", "a"}}).error().message, HasSubstr("go together"));
}

TEST(S3Config, WrongOptionsAreNamed) {
  World world;
  const OptionValues keys = {{"access_key_id", "a"}, {"secret_access_key", "b"}};
  const auto error = [&](const std::string& key, const std::string& value) {
    OptionValues values = keys;
    values.emplace_back(key, value);
    return world.read(values).error().message;
  };
  EXPECT_THAT(error("part_size", "1MiB"), HasSubstr("part_size=1MiB"));
  EXPECT_THAT(error("endpoint", "ceph:80"), HasSubstr("must start with http://"));
  EXPECT_THAT(error("path_style", "maybe"), HasSubstr("path_style"));
  EXPECT_THAT(error("stall_timeout", "0s"), HasSubstr("stall_timeout must be above 0"));
  EXPECT_THAT(error("region", "a/b"), HasSubstr("region 'a/b'"));
  EXPECT_THAT(error("conections", "1"), HasSubstr("did you mean 'connections'"));
  EXPECT_THAT(world.read(keys, "").error().message, HasSubstr("names no bucket"));
}

TEST(S3Profile, BrokenFilesAreNamedByLineWithoutTheirContent) {
  EXPECT_THAT(parse_profiles("/c", "[default]\nsecret hunter2\n").error().message,
              AllOf(HasSubstr("/c:2"), testing::Not(HasSubstr("hunter2"))));
  EXPECT_FALSE(parse_profiles("/c", "a = b\n").ok());
  EXPECT_FALSE(parse_profiles("/c", "[x\n").ok());
  EXPECT_EQ(parse_profiles("/c", "[a]\r\nk = v\r\n")->at("a").at("k"), "v");
}

}  // namespace
}  // namespace forebay::storage

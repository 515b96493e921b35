// What the s3 driver was told: its options, and what the environment and the profile files add.
//
// Values; safe to share between threads. Secrets live in S3Credentials only, which no text repeats.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "storage/s3_address.h"
#include "storage/store.h"

namespace forebay::storage {

struct S3Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // "" without one
  bool is_anonymous = false;
};

struct S3Config {
  BucketPlace place;
  Endpoint endpoint;
  std::string region;
  bool is_path_style = true;
  S3Credentials credentials;
  std::string ca_file;  // "" = the system's
  int connections = 0;
  uint64_t part_bytes = 0;    // of uploads in parts
  int upload_parts = 0;       // of one upload, at once
  uint64_t range_bytes = 0;   // a longer read is made of several requests
  int attempts_max = 0;       // of one request
  int64_t retry_time_ns = 0;  // no new attempt after that
  int64_t backoff_ns = 0;     // before the second attempt; doubles
  int64_t connect_timeout_ns = 0;
  int64_t stall_timeout_ns = 0;  // without a byte
  bool verify_md5 = false;

  // "s3://bucket/prefix at https://...": what results show.
  std::string describe() const;
};

std::span<const StoreOption> s3_options();

// Where values come from that no option gives. Tests put their own in its place.
struct S3Surroundings {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::function<Result<std::string>(const std::string& path)> file;  // kNotFound when missing
};
S3Surroundings process_surroundings();

// kInvalidArgument names the option, the variable or the file that is wrong. Without credentials
// the error lists where they were looked for.
Result<S3Config> read_s3_config(std::string_view root, const OptionValues& values,
                                const S3Surroundings& surroundings);

}  // namespace forebay::storage

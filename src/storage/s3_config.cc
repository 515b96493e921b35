#include "storage/s3_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "storage/options.h"
#include "storage/s3_profile.h"
#include "sys/environment.h"

namespace forebay::storage {
namespace {

constexpr std::string_view kDefaultRegion = "us-east-1";
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPartMin = 5 * kMiB;  // smaller parts are refused by servers
constexpr uint64_t kPartMax = 1024 * kMiB;
constexpr int64_t kRetryTimeMaxNs = 24 * kHourNs;
constexpr uint64_t kRangeMax = uint64_t{1} << 40;
constexpr size_t kProfileFileMax = 1 << 20;

constexpr StoreOption kOptions[] = {
    {"endpoint", "http://HOST[:PORT][/PATH] or https://...", "",
     "the server; \"\" = AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile, Amazon's"},
    {"region", "name", "", "\"\" = AWS_REGION, AWS_DEFAULT_REGION, the profile, us-east-1"},
    {"path_style", "auto, true or false", "auto",
     "the bucket in the path instead of the host name; auto: unless the server is Amazon's"},
    {"anonymous", "true or false", "false", "requests without a signature: public data"},
    {"profile", "name", "", "section of ~/.aws/credentials and ~/.aws/config; \"\" = AWS_PROFILE"},
    {"connections", "1..4096", "256", "requests in flight, of all queues together"},
    {"range", "bytes, 64KiB..1TiB", "16MiB",
     "a longer read with a destination is made of requests of this size, side by side"},
    {"part_size", "bytes, 5MiB..1GiB", "8MiB", "of an upload; what is smaller is one PUT"},
    {"upload_parts", "1..64", "4", "parts of one file on their way at once, each in memory"},
    {"max_attempts", "1..100", "5", "tries of one request, the first included"},
    {"backoff", "duration up to 1h", "200ms",
     "before the second try; doubles with each, half of it random; a server's Retry-After wins"},
    {"retry_time", "duration up to 24h", "2min",
     "no new try of a request this long after the first"},
    {"connect_timeout", "duration up to 1h, above 0", "5s", "to be connected"},
    {"stall_timeout", "duration up to 1h, above 0", "30s",
     "a request for which no byte moves this long is tried again; completing an upload has ten "
     "times as long"},
    {"ca_file", "path of a PEM file", "",
     "certificates to trust instead of the system's; \"\" = AWS_CA_BUNDLE, the profile"},
    {"verify", "given or md5", "given",
     "of whole objects: the checksum that the server sends; md5: also an ETag that is an MD5"},
    {"access_key_id", "text", "", "\"\" = AWS_ACCESS_KEY_ID, the profile", true},
    {"secret_access_key", "text", "", "\"\" = AWS_SECRET_ACCESS_KEY, the profile", true},
    {"session_token", "text", "", "\"\" = AWS_SESSION_TOKEN, the profile", true},
};

// The files' sections and the variables, asked as one.
class Sources {
 public:
  explicit Sources(const S3Surroundings& surroundings) : surroundings_(surroundings) {}

  std::string variable(const std::string& name) const {
    return surroundings_.variable(name).value_or("");
  }
  const std::string& profile_name() const { return profile_name_; }
  const std::string& credentials_path() const { return credentials_path_; }
  const std::string& config_path() const { return config_path_; }

  std::string profile(std::string_view key) const {
    const auto found = profile_.find(key);
    return found == profile_.end() ? "" : found->second;
  }

  // `asked` is the profile that an option names, or "".
  Status load(std::string_view asked) {
    profile_name_ = asked.empty() ? variable("AWS_PROFILE") : std::string(asked);
    const bool is_named = !profile_name_.empty();
    if (!is_named) profile_name_ = "default";
    credentials_path_ = path_of("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    config_path_ = path_of("AWS_CONFIG_FILE", "config");
    bool is_known = FB_TRY(add(config_path_));
    is_known = FB_TRY(add(credentials_path_)) || is_known;
    if (is_named && !is_known)
      return fail(ErrorCode::kInvalidArgument, "storage 's3': no profile '{}' in {} or {}",
                  profile_name_, credentials_path_, config_path_);
    return {};
  }

 private:
  std::string path_of(const std::string& name, const std::string& file) const {
    std::string given = variable(name);
    if (!given.empty()) return given;
    const std::string home = variable("HOME");
    return home.empty() ? "" : home + "/.aws/" + file;
  }

  // True when the file has the profile.
  Result<bool> add(const std::string& path) {
    if (path.empty()) return false;
    const Result<std::string> text = surroundings_.file(path);
    if (!text.ok() && text.error().code == ErrorCode::kNotFound) return false;
    if (!text.ok()) return Error(text.error());
    const auto sections = FB_TRY(parse_profiles(path, *text));
    const auto found = sections.find(profile_name_);
    if (found == sections.end()) return false;
    for (const auto& [key, value] : found->second) profile_[key] = value;
    return true;
  }

  const S3Surroundings& surroundings_;
  std::string profile_name_;
  std::string credentials_path_;
  std::string config_path_;
  Profile profile_;
};

std::string first_of(std::initializer_list<std::string> candidates) {
  for (const std::string& candidate : candidates)
    if (!candidate.empty()) return candidate;
  return "";
}

Error no_credentials(const Sources& sources) {
  for (const char* key : {"credential_process", "sso_session", "sso_start_url", "role_arn"})
    if (!sources.profile(key).empty())
      return fail(
          ErrorCode::kInvalidArgument,
          "storage 's3': profile '{}' gets its keys by {}, which is not supported: put them "
          "into AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (`aws "
          "configure export-credentials --format env` prints them)",
          sources.profile_name(), key);
  return fail(
      ErrorCode::kInvalidArgument,
      "storage 's3': no credentials. Looked for: storage.storage_options of the workload; "
      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; profile '{}' in {} and {}. For public data set "
      "anonymous=true",
      sources.profile_name(),
      sources.credentials_path().empty() ? "~/.aws/credentials" : sources.credentials_path(),
      sources.config_path().empty() ? "~/.aws/config" : sources.config_path());
}

// Signatures and headers are lines of text: a key with a line break would be another header.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

Result<S3Credentials> find_credentials(const OptionReader& options, const Sources& sources) {
  S3Credentials out;
  out.is_anonymous = FB_TRY(options.flag("anonymous"));
  if (out.is_anonymous) return out;
  const auto take = [&](std::string id, std::string secret, std::string token) {
    out.access_key_id = std::move(id);
    out.secret_access_key = std::move(secret);
    out.session_token = std::move(token);
    return !out.access_key_id.empty() && !out.secret_access_key.empty();
  };
  const auto given = [&](std::string_view key) { return std::string(options.text(key)); };
  const bool is_half = given("access_key_id").empty() != given("secret_access_key").empty();
  if (is_half)
    return fail(ErrorCode::kInvalidArgument,
                "storage 's3': access_key_id and secret_access_key go together; only one is given");
  bool has = take(given("access_key_id"), given("secret_access_key"), given("session_token"));
  const auto from_profile = [&] {
    return take(sources.profile("aws_access_key_id"), sources.profile("aws_secret_access_key"),
                sources.profile("aws_session_token"));
  };
  // A profile that is asked for by name comes before variables that happen to be set.
  if (!has && !options.text("profile").empty()) has = from_profile();
  if (!has) {
    const std::string id = sources.variable("AWS_ACCESS_KEY_ID");
    const std::string secret = sources.variable("AWS_SECRET_ACCESS_KEY");
    if (id.empty() != secret.empty())
      return fail(
          ErrorCode::kInvalidArgument,
          "storage 's3': AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY go together; only {} is "
          "set",
          id.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    has = take(id, secret, sources.variable("AWS_SESSION_TOKEN"));
  }
  if (!has) has = from_profile();
  if (!has) return no_credentials(sources);
  for (const std::string* part : {&out.access_key_id, &out.secret_access_key, &out.session_token})
    if (!is_plain(*part))
      return fail(ErrorCode::kInvalidArgument,
                  "storage 's3': a key or a token holds a space, a line break or a letter beyond "
                  "ASCII");
  return out;
}

Status find_server(const OptionReader& options, const Sources& sources, S3Config& out) {
  out.region = first_of({std::string(options.text("region")), sources.variable("AWS_REGION"),
                         sources.variable("AWS_DEFAULT_REGION"), sources.profile("region"),
                         std::string(kDefaultRegion)});
  if (!is_plain(out.region) || out.region.find_first_of(":/") != std::string::npos)
    return fail(ErrorCode::kInvalidArgument, "storage 's3': region '{}': is not a name",
                out.region);
  const std::string endpoint = first_of(
      {std::string(options.text("endpoint")), sources.variable("AWS_ENDPOINT_URL_S3"),
       sources.variable("AWS_ENDPOINT_URL"), sources.profile("s3.endpoint_url"),
       sources.profile("endpoint_url"), fmt::format("https://s3.{}.amazonaws.com", out.region)});
  out.endpoint = FB_TRY(parse_endpoint(endpoint).context("storage 's3'"));
  constexpr std::string_view kStyles[] = {"auto", "true", "false"};
  const size_t style = FB_TRY(options.choice("path_style", kStyles));
  const std::string from_profile = sources.profile("s3.addressing_style");
  // A certificate for *.host does not cover a bucket with a dot.
  const bool has_dot = out.place.bucket.find('.') != std::string::npos;
  const bool is_automatic = !out.endpoint.is_amazon() || has_dot || !out.endpoint.base.empty();
  out.is_path_style = style == 1 || (style == 0 && from_profile == "path") ||
                      (style == 0 && from_profile != "virtual" && is_automatic);
  out.ca_file = first_of({std::string(options.text("ca_file")), sources.variable("AWS_CA_BUNDLE"),
                          sources.profile("ca_bundle")});
  return {};
}

Status read_limits(const OptionReader& options, S3Config& out) {
  out.connections = static_cast<int>(FB_TRY(options.integer("connections", 1, 4096)));
  out.range_bytes = FB_TRY(options.bytes("range", 64 << 10, kRangeMax));
  out.part_bytes = FB_TRY(options.bytes("part_size", kPartMin, kPartMax));
  out.upload_parts = static_cast<int>(FB_TRY(options.integer("upload_parts", 1, 64)));
  out.attempts_max = static_cast<int>(FB_TRY(options.integer("max_attempts", 1, 100)));
  out.backoff_ns = FB_TRY(options.duration_ns("backoff"));
  out.retry_time_ns = FB_TRY(options.duration_ns("retry_time", kRetryTimeMaxNs));
  out.connect_timeout_ns = FB_TRY(options.duration_ns("connect_timeout"));
  out.stall_timeout_ns = FB_TRY(options.duration_ns("stall_timeout"));
  for (const char* key : {"connect_timeout", "stall_timeout"})
    if (FB_TRY(options.duration_ns(key)) == 0)
      return fail(ErrorCode::kInvalidArgument, "storage 's3': {} must be above 0", key);
  constexpr std::string_view kChecks[] = {"given", "md5"};
  out.verify_md5 = FB_TRY(options.choice("verify", kChecks)) == 1;
  return {};
}

}  // namespace

std::span<const StoreOption> s3_options() {
  return kOptions;
}

std::string S3Config::describe() const {
  std::string text = "s3://" + place.bucket;
  if (!place.prefix.empty()) text += "/" + place.prefix.substr(0, place.prefix.size() - 1);
  return text + " at " + endpoint.text();
}

S3Surroundings process_surroundings() {
  return {.variable = [](const std::string& name) { return sys::environment(name); },
          .file = [](const std::string& path) -> Result<std::string> {
            const size_t slash = path.rfind('/');
            const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
            const auto store = FB_TRY(open_store("local", folder));
            const auto bytes = FB_TRY(read_file(
                *store, path.substr(slash == std::string::npos ? 0 : slash + 1), kProfileFileMax));
            return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          }};
}

Result<S3Config> read_s3_config(std::string_view root, const OptionValues& values,
                                const S3Surroundings& surroundings) {
  const OptionReader options = FB_TRY(OptionReader::open("s3", kOptions, values));
  S3Config out;
  out.place = FB_TRY(parse_bucket_place(root));
  Sources sources(surroundings);
  FB_TRY(sources.load(options.text("profile")));
  FB_TRY(read_limits(options, out));
  FB_TRY(find_server(options, sources, out));
  out.credentials = FB_TRY(find_credentials(options, sources));
  return out;
}

}  // namespace forebay::storage

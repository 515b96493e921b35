#include "storage/s3_address.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"
#include "storage/place.h"

namespace forebay::storage {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::string_view kHex = "0123456789ABCDEF";
constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The number in text[at, at + digits), or -1.
int number_at(std::string_view text, size_t at, size_t digits) {
  if (at + digits > text.size()) return -1;
  int value = -1;
  const char* end = text.data() + at + digits;
  const auto parsed = std::from_chars(text.data() + at, end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? value : -1;
}

// Days from 1970-01-01 in the Gregorian calendar (Hinnant's count of eras).
int64_t days_since_1970(int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = year / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

}  // namespace

std::string percent_encode(std::string_view text, bool keep_slash) {
  std::string out;
  out.reserve(text.size() + 8);
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_code = text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 &&
                         hex_value(text[i + 2]) >= 0;
    if (is_code) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' && plus_is_space ? ' ' : text[i];
    }
  }
  return out;
}

std::string canonical_query(QueryItems items) {
  for (auto& [name, value] : items) {
    name = percent_encode(name, false);
    value = percent_encode(value, false);
  }
  std::sort(items.begin(), items.end());
  std::string out;
  for (const auto& [name, value] : items) {
    if (!out.empty()) out += '&';
    out += name + "=" + value;
  }
  return out;
}

Result<BucketPlace> parse_bucket_place(std::string_view root) {
  std::string_view rest = root;
  if (is_object_place(rest)) rest.remove_prefix(kScheme.size());
  while (rest.starts_with("./")) rest.remove_prefix(2);
  const size_t slash = std::min(rest.find('/'), rest.size());
  BucketPlace out;
  out.bucket = rest.substr(0, slash);
  const bool is_named = !out.bucket.empty() && out.bucket != "." && out.bucket != ".." &&
                        std::all_of(out.bucket.begin(), out.bucket.end(), is_unreserved);
  if (!is_named)
    return fail(ErrorCode::kInvalidArgument,
                "'{}': names no bucket; write s3://BUCKET or s3://BUCKET/PREFIX", root);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  // As in a path of files: "a//b/./" is a/b.
  for (const std::string_view part : base::split(rest, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..")
      return fail(ErrorCode::kInvalidArgument, "'{}': a prefix cannot go up with '..'", root);
    out.prefix += std::string(part) + "/";
  }
  return out;
}

bool Endpoint::is_loopback() const {
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

bool Endpoint::is_amazon() const {
  const std::string_view name = std::string_view(host).substr(0, host.find(':'));
  return name.ends_with(".amazonaws.com") || name.ends_with(".amazonaws.com.cn");
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    // A password must not reach a message, so what stands before '@' is left out.
    const size_t at = text.rfind('@');
    return fail(ErrorCode::kInvalidArgument, "endpoint '{}': {}",
                at == std::string_view::npos ? text : text.substr(at), why);
  };
  std::string_view rest = base::trim(text);
  Endpoint out;
  const size_t colon = rest.find("://");
  out.scheme = colon == std::string_view::npos ? "" : base::to_lower(rest.substr(0, colon));
  if (out.scheme != "http" && out.scheme != "https")
    return wrong("must start with http:// or https://");
  rest.remove_prefix(colon + 3);
  if (rest.find('@') != std::string_view::npos)
    return wrong("credentials do not belong into an address");
  if (rest.find_first_of("?# \t\r\n\"<>\\") != std::string_view::npos)
    return wrong("is an address of a server, without a query");
  const size_t slash = std::min(rest.find('/'), rest.size());
  out.host = base::to_lower(rest.substr(0, slash));
  out.base = rest.substr(slash);
  while (out.base.ends_with('/')) out.base.pop_back();
  if (out.host.empty() || out.host.front() == ':') return wrong("names no host");
  // The client leaves a scheme's own port out of the Host header, and so must the signature.
  const std::string_view own_port = out.scheme == "http" ? ":80" : ":443";
  if (out.host.ends_with(own_port)) out.host.resize(out.host.size() - own_port.size());
  return out;
}

std::string redirect_target(std::string_view from, std::string_view location) {
  std::string url(base::trim(location));
  if (url.starts_with('/')) {
    const size_t host = from.find("://");
    if (host == std::string_view::npos) return "";
    url = std::string(from.substr(0, std::min(from.find('/', host + 3), from.size()))) + url;
  }
  url.resize(std::min(url.find('#'), url.size()));
  const size_t question = std::min(url.find('?'), url.size());
  const std::string_view place = std::string_view(url).substr(0, question);
  const bool is_downgrade = from.starts_with("https://") && !place.starts_with("https://");
  const bool is_http = place.starts_with("http://") || place.starts_with("https://");
  if (!is_http || is_downgrade || place.find('@') != std::string_view::npos) return "";
  QueryItems items;
  if (question < url.size()) {
    for (const std::string_view item :
         base::split(std::string_view(url).substr(question + 1), '&')) {
      if (item.empty()) continue;
      const size_t equals = std::min(item.find('='), item.size());
      items.emplace_back(percent_decode(item.substr(0, equals), false),
                         percent_decode(item.substr(std::min(equals + 1, item.size())), false));
    }
  }
  std::string out(place);
  if (!items.empty()) out += "?" + canonical_query(std::move(items));
  return out;
}

std::string object_url(const Endpoint& endpoint, bool is_path_style, const std::string& bucket,
                       std::string_view key, const QueryItems& query) {
  std::string url = endpoint.scheme + "://";
  if (!is_path_style) url += bucket + ".";
  url += endpoint.host + endpoint.base + "/";
  if (is_path_style) url += bucket + (key.empty() ? "" : "/");
  url += percent_encode(key, true);
  if (!query.empty()) url += "?" + canonical_query(query);
  return url;
}

int64_t parse_http_time_ns(std::string_view text) {
  int year = -1;
  int month = -1;
  int day = -1;
  size_t clock = 0;
  if (text.size() >= 20 && text[10] == 'T') {
    year = number_at(text, 0, 4);
    month = number_at(text, 5, 2);
    day = number_at(text, 8, 2);
    clock = 11;
  } else if (text.size() >= 29 && text[3] == ',') {
    day = number_at(text, 5, 2);
    const size_t at = kMonths.find(text.substr(8, 3));
    month = at == std::string_view::npos ? -1 : static_cast<int>(at / 3) + 1;
    year = number_at(text, 12, 4);
    clock = 17;
  }
  const int hour = number_at(text, clock, 2);
  const int minute = number_at(text, clock + 3, 2);
  const int second = number_at(text, clock + 6, 2);
  // Nanoseconds in 64 bits end in 2262.
  if (year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1 || hour < 0 || minute < 0 ||
      second < 0)
    return 0;
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  const int64_t days = days_since_1970(year, month, day);
  int64_t fraction = 0;
  if (clock == 11 && text.size() > 23 && text[19] == '.')
    fraction = std::max(0, number_at(text, 20, 3)) * int64_t{1'000'000};
  return (((days * 24 + hour) * 60 + minute) * 60 + second) * kNsPerSecond + fraction;
}

}  // namespace forebay::storage

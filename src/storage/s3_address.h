// Where an object lies: names of buckets, keys and endpoints as text, and the URLs made of them.
//
// Values and pure functions; safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"

namespace forebay::storage {

// RFC 3986, as signatures of version 4 ask for it: everything but A-Z a-z 0-9 - . _ ~ becomes %XX.
std::string percent_encode(std::string_view text, bool keep_slash);
// Undoes it. A '%' that two hexadecimal digits do not follow stays as it is.
std::string percent_decode(std::string_view text, bool plus_is_space);

using QueryItems = std::vector<std::pair<std::string, std::string>>;

// "list-type=2&prefix=a%2Fb": sorted, encoded, with '=' behind every name. The one text that goes
// into both the URL and the signature.
std::string canonical_query(QueryItems items);

// "s3://bucket/some/prefix", or the same without the scheme.
struct BucketPlace {
  std::string bucket;
  std::string prefix;  // "" or "some/prefix/"
};
Result<BucketPlace> parse_bucket_place(std::string_view root);

// "https://host:port/base": `base` is "" or starts with '/' and does not end with it.
struct Endpoint {
  std::string scheme;  // "http" or "https"
  std::string host;    // with the port where one was given
  std::string base;

  bool is_loopback() const;
  bool is_amazon() const;
  std::string text() const { return scheme + "://" + host + base; }
};
// kInvalidArgument for anything else, user names and passwords included.
Result<Endpoint> parse_endpoint(std::string_view text);

// Where a redirect leads, with its query in canonical order; "" when it is not a URL that the
// request may follow: it must not lead from https to http.
std::string redirect_target(std::string_view from, std::string_view location);

// The bucket stands in the path, or in front of the host's name.
std::string object_url(const Endpoint& endpoint, bool is_path_style, const std::string& bucket,
                       std::string_view key, const QueryItems& query);

// Nanoseconds since 1970 of "2026-11-29T18:22:15.000Z" or "Sun, 29 Nov 2026 18:22:15 GMT"; 0 when
// it is neither.
int64_t parse_http_time_ns(std::string_view text);

}  // namespace forebay::storage

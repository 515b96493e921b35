// The XML answers of an object store, read strictly: a document that is cut short, declares
// entities or is of another kind is an error, never a partial result.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"

namespace forebay::storage {

struct ListedObject {
  std::string key;
  std::string etag;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
};

struct ListPage {
  std::vector<ListedObject> objects;
  bool is_truncated = false;
  std::string next_token;  // of the next page; set when is_truncated
};
// ListBucketResult. Keys are decoded when the answer says that it encoded them.
Result<ListPage> parse_list_page(std::string_view xml);

// InitiateMultipartUploadResult.
Result<std::string> parse_upload_id(std::string_view xml);

// An upload in parts that has not ended.
struct ListedUpload {
  std::string key;
  std::string id;
  int64_t begun_ns = 0;
};
struct UploadPage {
  std::vector<ListedUpload> uploads;
  bool is_truncated = false;
  std::string next_key, next_id;  // of the next page; set when is_truncated
};
// ListMultipartUploadsResult; keys as in parse_list_page.
Result<UploadPage> parse_upload_page(std::string_view xml);

// The parts of one upload.
struct PartPage {
  uint64_t bytes = 0;     // of those on this page
  int64_t newest_ns = 0;  // when the last of them came
  bool is_truncated = false;
  std::string next_number;  // of the next page; set when is_truncated
};
// ListPartsResult.
Result<PartPage> parse_part_page(std::string_view xml);

// What an <Error> document says; nothing when the text is not one.
struct ServerError {
  std::string code;     // "NoSuchKey"
  std::string message;  // the server's words
  std::string region;   // the right one, where the server names it
};
std::optional<ServerError> parse_server_error(std::string_view xml);

// Ok when the document's root is `name`. A completed upload may answer 200 and an <Error>.
Status expect_root(std::string_view xml, std::string_view name);

// The parts' numbers count from 1.
std::string complete_upload_xml(const std::vector<std::string>& etags);

}  // namespace forebay::storage

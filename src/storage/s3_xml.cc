#include "storage/s3_xml.h"

#include <expat.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <utility>

#include "base/error.h"
#include "storage/s3_address.h"

namespace forebay::storage {
namespace {

constexpr size_t kDepthMax = 32;

// Calls `leaf` with the path of an element ("Contents/Key", without the root) and its text when it
// ends, and `opened` when it begins.
class Walk {
 public:
  std::function<void(std::string_view path, const std::string& text)> on_end;

  Status run(std::string_view xml) {
    const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
        XML_ParserCreate("UTF-8"), &XML_ParserFree);
    if (parser == nullptr) return fail(ErrorCode::kResourceExhausted, "no memory to read XML");
    parser_ = parser.get();
    XML_SetUserData(parser_, this);
    XML_SetElementHandler(parser_, &Walk::begin, &Walk::end);
    XML_SetCharacterDataHandler(parser_, &Walk::characters);
    XML_SetStartDoctypeDeclHandler(parser_, &Walk::doctype);
    const auto status = XML_Parse(parser_, xml.data(), static_cast<int>(xml.size()), XML_TRUE);
    if (!problem_.empty()) return fail(ErrorCode::kCorruption, "the answer's XML {}", problem_);
    if (status != XML_STATUS_OK)
      return fail(ErrorCode::kCorruption, "the answer is not whole XML: {} in line {}",
                  XML_ErrorString(XML_GetErrorCode(parser_)), XML_GetCurrentLineNumber(parser_));
    return {};
  }

  const std::string& root() const { return root_; }

 private:
  static void begin(void* self, const char* name, const char** /*attributes*/) {
    static_cast<Walk*>(self)->open(name);
  }
  static void end(void* self, const char* /*name*/) { static_cast<Walk*>(self)->close(); }
  static void characters(void* self, const char* text, int length) {
    static_cast<Walk*>(self)->text_.append(text, static_cast<size_t>(length));
  }
  // Entities of its own can grow a short document without bound; no object store declares any.
  static void doctype(void* self, const char*, const char*, const char*, int) {
    static_cast<Walk*>(self)->refuse("declares a document type");
  }

  void refuse(const char* why) {
    if (problem_.empty()) problem_ = why;
    XML_StopParser(parser_, XML_FALSE);
  }

  void open(std::string_view name) {
    text_.clear();
    if (root_.empty()) {
      root_ = name;
      return;
    }
    if (lengths_.size() == kDepthMax) return refuse("is nested too deeply");
    lengths_.push_back(path_.size());
    if (!path_.empty()) path_ += '/';
    path_ += name;
  }

  void close() {
    if (lengths_.empty()) return;
    if (on_end) on_end(path_, text_);
    text_.clear();
    path_.resize(lengths_.back());
    lengths_.pop_back();
  }

  XML_Parser parser_ = nullptr;
  std::string root_;
  std::string path_;
  std::vector<size_t> lengths_;
  std::string text_;
  std::string problem_;
};

Status walk(Walk& walker, std::string_view xml, std::string_view root) {
  FB_TRY(walker.run(xml));
  if (walker.root() == root) return {};
  return fail(ErrorCode::kCorruption, "the answer is <{}>, not <{}>", walker.root(), root);
}

std::string unquoted(std::string text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  return text;
}

}  // namespace

Result<ListPage> parse_list_page(std::string_view xml) {
  ListPage page;
  ListedObject now;
  bool is_encoded = false;
  bool has_key = false;
  bool has_size = false;
  std::string problem;
  Walk walker;
  walker.on_end = [&](std::string_view path, const std::string& text) {
    if (path == "EncodingType") {
      is_encoded = text == "url";
    } else if (path == "IsTruncated") {
      page.is_truncated = text == "true";
    } else if (path == "NextContinuationToken") {
      page.next_token = text;
    } else if (path == "Contents/Key") {
      now.key = text;
      has_key = true;
    } else if (path == "Contents/Size") {
      const char* end = text.data() + text.size();
      const auto parsed = std::from_chars(text.data(), end, now.size);
      has_size = parsed.ec == std::errc() && parsed.ptr == end;
    } else if (path == "Contents/ETag") {
      now.etag = unquoted(text);
    } else if (path == "Contents/LastModified") {
      now.mtime_ns = parse_http_time_ns(text);
    } else if (path == "Contents") {
      if (!has_key || !has_size) problem = fmt::format("'{}' has no size or no key", now.key);
      page.objects.push_back(std::move(now));
      now = {};
      has_key = has_size = false;
    }
  };
  FB_TRY(walk(walker, xml, "ListBucketResult"));
  if (!problem.empty()) return fail(ErrorCode::kCorruption, "the listing is wrong: {}", problem);
  if (page.is_truncated && page.next_token.empty())
    return fail(ErrorCode::kCorruption,
                "the listing says that there is more, but not how to go on");
  // EncodingType may come behind the keys it speaks of.
  if (is_encoded)
    for (ListedObject& object : page.objects) object.key = percent_decode(object.key, true);
  return page;
}

Result<std::string> parse_upload_id(std::string_view xml) {
  std::string id;
  Walk walker;
  walker.on_end = [&](std::string_view path, const std::string& text) {
    if (path == "UploadId") id = text;
  };
  FB_TRY(walk(walker, xml, "InitiateMultipartUploadResult"));
  if (id.empty()) return fail(ErrorCode::kCorruption, "the answer names no upload");
  return id;
}

Result<UploadPage> parse_upload_page(std::string_view xml) {
  UploadPage page;
  ListedUpload now;
  bool is_encoded = false;
  std::string problem;
  Walk walker;
  walker.on_end = [&](std::string_view path, const std::string& text) {
    if (path == "EncodingType") {
      is_encoded = text == "url";
    } else if (path == "IsTruncated") {
      page.is_truncated = text == "true";
    } else if (path == "NextKeyMarker") {
      page.next_key = text;
    } else if (path == "NextUploadIdMarker") {
      page.next_id = text;
    } else if (path == "Upload/Key") {
      now.key = text;
    } else if (path == "Upload/UploadId") {
      now.id = text;
    } else if (path == "Upload/Initiated") {
      now.begun_ns = parse_http_time_ns(text);
    } else if (path == "Upload") {
      if (now.key.empty() || now.id.empty()) problem = "an upload without a key or an id";
      page.uploads.push_back(std::exchange(now, {}));
    }
  };
  FB_TRY(walk(walker, xml, "ListMultipartUploadsResult"));
  if (page.is_truncated && page.next_key.empty()) problem = "there is more, but not how to go on";
  if (!problem.empty()) return fail(ErrorCode::kCorruption, "the listing is wrong: {}", problem);
  if (is_encoded) {
    page.next_key = percent_decode(page.next_key, true);
    for (ListedUpload& upload : page.uploads) upload.key = percent_decode(upload.key, true);
  }
  return page;
}

Result<PartPage> parse_part_page(std::string_view xml) {
  PartPage page;
  std::string problem;
  Walk walker;
  walker.on_end = [&](std::string_view path, const std::string& text) {
    if (path == "IsTruncated") {
      page.is_truncated = text == "true";
    } else if (path == "NextPartNumberMarker") {
      page.next_number = text;
    } else if (path == "Part/LastModified") {
      page.newest_ns = std::max(page.newest_ns, parse_http_time_ns(text));
    } else if (path == "Part/Size") {
      uint64_t bytes = 0;
      const char* end = text.data() + text.size();
      const auto parsed = std::from_chars(text.data(), end, bytes);
      if (parsed.ec != std::errc() || parsed.ptr != end || bytes > UINT64_MAX - page.bytes)
        problem = fmt::format("a part of '{}' bytes", text);
      else
        page.bytes += bytes;
    }
  };
  FB_TRY(walk(walker, xml, "ListPartsResult"));
  if (page.is_truncated && page.next_number.empty())
    problem = "there is more, but not how to go on";
  if (!problem.empty()) return fail(ErrorCode::kCorruption, "the listing is wrong: {}", problem);
  return page;
}

std::optional<ServerError> parse_server_error(std::string_view xml) {
  ServerError out;
  Walk walker;
  walker.on_end = [&](std::string_view path, const std::string& text) {
    if (path == "Code") out.code = text;
    if (path == "Message") out.message = text;
    if (path == "Region") out.region = text;
  };
  if (!walker.run(xml).ok() || walker.root() != "Error" || out.code.empty()) return std::nullopt;
  return out;
}

Status expect_root(std::string_view xml, std::string_view name) {
  Walk walker;
  return walk(walker, xml, name);
}

std::string complete_upload_xml(const std::vector<std::string>& etags) {
  std::string xml = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags.size(); ++i) {
    // An ETag is opaque: what a server put into it must not become markup.
    std::string etag;
    for (const char c : etags[i]) {
      if (c == '&')
        etag += "&amp;";
      else if (c == '<')
        etag += "&lt;";
      else if (c == '"')
        etag += "&quot;";
      else
        etag += c;
    }
    xml += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, etag);
  }
  return xml + "</CompleteMultipartUpload>";
}

}  // namespace forebay::storage

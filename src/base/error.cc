#include "base/error.h"

#include <string_view>

#include "base/check.h"

namespace forebay {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kCorruption:
      return "corrupt";
    case ErrorCode::kIo:
      return "I/O error";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kResourceExhausted:
      return "resource exhausted";
  }
  return "unknown";
}

namespace {

// Whether a part of a message says all that `what` says: the same, something below it, it as the
// end of a path, behind a driver's name, or an address with the server behind it.
bool names(std::string_view part, std::string_view what) {
  if (part == what) return true;
  if (part.starts_with(what)) {
    const std::string_view rest = part.substr(what.size());
    return rest.front() == '/' || what.ends_with('/') || rest.starts_with(" at ");
  }
  if (!part.ends_with(what)) return false;
  const char before = part[part.size() - what.size() - 1];
  return before == '/' || before == ':';
}

}  // namespace

void abort_of_wrong_result(const Error* error) {
  if (error == nullptr) base::abort_of_bug("a result that holds a value was asked for its error");
  base::abort_of_bug("a result that holds an error was asked for its value: " + error->message);
}

std::string with_context(std::string message, const std::string& what) {
  constexpr std::string_view kBetween = ": ";
  if (what.empty()) return message;
  for (size_t start = 0; start < message.size();) {
    const size_t end = message.find(kBetween, start);
    if (end == std::string::npos) break;  // the cause itself
    const std::string part = message.substr(start, end - start);
    if (names(part, what)) {
      message.erase(start, part.size() + kBetween.size());
      return message.insert(0, part + std::string(kBetween));
    }
    start = end + kBetween.size();
  }
  return message.insert(0, what + std::string(kBetween));
}

}  // namespace forebay

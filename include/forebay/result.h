// A value or the reason there is none. Every failure that input, disks or networks can cause
// travels as a Result; bugs abort instead (base/check.h).
//
// Values: safe to move between threads, no shared state. A dropped Result is a compiler warning.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace forebay {

// What a caller can act on. Messages are for people; branch on codes only.
enum class ErrorCode {
  kInvalidArgument,    // the request itself is wrong: configuration, option, size
  kNotFound,           // the named thing does not exist
  kCorruption,         // bytes are there but are not what they claim to be
  kIo,                 // the operating system or the device failed
  kUnsupported,        // valid, but this build or machine cannot do it
  kCancelled,          // a stop was asked for
  kResourceExhausted,  // disk, memory, descriptors or an allowance are used up
};

// "invalid argument", "not found", ...
const char* error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kIo;
  std::string message;
};

// "what: message", with `what` once: a part of the message that names it already, or names it more
// fully (the path with its folder, the address with its server), comes to the front instead.
std::string with_context(std::string message, const std::string& what);

// For Result alone: the value of one that holds `error`, or the error of one that holds a value
// (null), was asked for.
[[noreturn]] void abort_of_wrong_result(const Error* error);

template <class T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): returning a value must read as returning a value.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Aborts unless ok().
  T& value() & { return there(std::get_if<0>(&state_)); }
  const T& value() const& { return there(std::get_if<0>(&state_)); }
  T&& value() && { return std::move(there(std::get_if<0>(&state_))); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T value_or(T other) && { return ok() ? std::move(*this).value() : std::move(other); }

  // Aborts when ok().
  const Error& error() const& { return there(std::get_if<1>(&state_)); }
  Error&& error() && { return std::move(there(std::get_if<1>(&state_))); }

  // Puts what the caller was doing in front of the message: "context: message".
  Result context(const std::string& what) && {
    if (Error* error = std::get_if<1>(&state_))
      error->message = with_context(std::move(error->message), what);
    return std::move(*this);
  }

  T take() && { return std::move(*this).value(); }
  void ignore(const char* /*why*/) const {}

 private:
  // A bug that is told beats a read of what is not there.
  template <class Part>
  Part& there(Part* part) const {
    if (part == nullptr) abort_of_wrong_result(std::get_if<1>(&state_));
    return *part;
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  // Aborts when ok().
  const Error& error() const& {
    if (!error_) abort_of_wrong_result(nullptr);
    return *error_;
  }
  Error&& error() && {
    if (!error_) abort_of_wrong_result(nullptr);
    return std::move(*error_);
  }

  Result context(const std::string& what) && {
    if (error_) error_->message = with_context(std::move(error_->message), what);
    return std::move(*this);
  }

  void take() && {}
  void ignore(const char* /*why*/) const {}

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace forebay

// The value of a Result, or return its error from the enclosing function. Once per statement.
#define FB_TRY(expression)                                                      \
  __extension__({                                                               \
    auto fb_result = (expression);                                              \
    if (!fb_result.ok()) return ::forebay::Error(std::move(fb_result).error()); \
    std::move(fb_result).take();                                                \
  })

// Values as bytes for another process of the same run, and back.
//
// One thread. Both sides run the same version on the same kind of processor; what does not fit is
// kCorruption.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "forebay/result.h"

namespace forebay::emulate {

class Packer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void put(const std::string& text) {
    put<uint64_t>(text.size());
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_trivially_copyable_v<T>
  void get(T& value) {
    if (!has(sizeof value)) return;
    std::memcpy(static_cast<void*>(&value), bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
  }
  void get(std::string& text) {
    uint64_t length = 0;
    get(length);
    if (!has(length)) return;
    text = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
  }
  // Of a list; at most as many as bytes are left.
  size_t count() {
    uint64_t count = 0;
    get(count);
    return has(count) ? count : 0;
  }
  Status done() const {
    if (is_short_ || !bytes_.empty())
      return fail(ErrorCode::kCorruption, "figures of another process do not have their length");
    return {};
  }

 private:
  bool has(uint64_t length) {
    is_short_ = is_short_ || length > bytes_.size();
    return !is_short_;
  }
  std::string_view bytes_;
  bool is_short_ = false;
};

}  // namespace forebay::emulate

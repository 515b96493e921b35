// The HDF5 library, which reads and writes metadata for us: its lock, its handles, its messages.
//
// The library is used by one thread at a time: whoever calls it holds a Hdf5Lock.
#pragma once

#include <hdf5.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "forebay/result.h"

namespace forebay::formats {

// Holds the process-wide lock, and keeps the library from printing its errors.
class Hdf5Lock {
 public:
  Hdf5Lock();
  ~Hdf5Lock();
  Hdf5Lock(const Hdf5Lock&) = delete;
  Hdf5Lock& operator=(const Hdf5Lock&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;  // what the thread had before
  void* print_data_ = nullptr;
};

// An open object of the library.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close how) : id_(id), close_(how) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  bool is_open() const { return id_ >= 0; }
  hid_t id() const { return id_; }
  // Negative when the library could not; closing a file may write.
  herr_t close() { return id_ >= 0 ? close_(std::exchange(id_, -1)) : 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// "what: the innermost message of the library". Clears the library's list.
Error hdf5_error(ErrorCode code, std::string_view what);

}  // namespace forebay::formats

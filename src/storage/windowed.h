// A view of another store whose small reads of one file share requests: what is asked for comes
// with its neighbourhood, and the next read near it costs nothing.
//
// For looking into files of a far store, where a request costs milliseconds and its bytes little:
// directories and headers are read in dozens of small steps. One thread at a time; what it
// remembers of a file may be stale by the time another is read and back. The store must outlive the
// view.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "storage/store.h"

namespace forebay::storage {

class WindowedStore final : public Store {
 public:
  explicit WindowedStore(Store& over) : over_(over) {}

  Capabilities capabilities() const override { return over_.capabilities(); }
  std::string describe() const override { return over_.describe(); }
  Result<Listing> list(std::string_view prefix) override { return over_.list(prefix); }
  Result<FileInfo> stat(std::string_view path) override { return over_.stat(path); }
  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) override {
    return over_.open_queue(std::move(options));
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset, std::span<std::byte> out) override;
  void set_stop(std::stop_token stop) override { over_.set_stop(std::move(stop)); }
  Status make_folder(std::string_view path) override { return over_.make_folder(path); }
  Status rename_folder(std::string_view from, std::string_view to) override {
    return over_.rename_folder(from, to);
  }
  Status link_file(std::string_view from, std::string_view to) override {
    return over_.link_file(from, to);
  }
  Result<std::shared_ptr<const void>> lock_file(std::string_view path, bool is_exclusive) override {
    return over_.lock_file(path, is_exclusive);
  }
  Status remove_folder(std::string_view path) override { return over_.remove_folder(path); }
  Result<std::unique_ptr<Writer>> create(std::string_view path) override {
    return over_.create(path);
  }
  Status remove(std::string_view path) override { return over_.remove(path); }
  Result<std::vector<std::string>> list_folders(std::string_view prefix) override {
    return over_.list_folders(prefix);
  }
  Result<std::vector<Unpublished>> list_unpublished(std::string_view prefix) override {
    return over_.list_unpublished(prefix);
  }
  Status remove_unpublished(const Unpublished& one) override {
    return over_.remove_unpublished(one);
  }
  void look_again() override { over_.look_again(); }
  Result<uint64_t> free_bytes() override { return over_.free_bytes(); }
  uint64_t other_retries() const override { return over_.other_retries(); }

 private:
  struct Window {
    uint64_t offset = 0;
    std::vector<std::byte> bytes;
    bool is_to_end = false;  // the file ends with it
  };

  Store& over_;
  std::string path_;               // of the file that the windows are of
  std::array<Window, 2> windows_;  // the beginning and the end, as a rule
  size_t next_ = 0;                // the window that is given up next
};

}  // namespace forebay::storage

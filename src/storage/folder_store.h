// What the stores on files have in common: everything but how they read many files at once.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "storage/folder.h"
#include "storage/store.h"

namespace forebay::storage {

class FolderStore : public Store {
 public:
  FolderStore(std::string_view driver, std::unique_ptr<Folder> folder)
      : driver_(driver), folder_(std::move(folder)) {}

  std::string describe() const override { return std::string(driver_) + ":" + folder_->root(); }
  Result<Listing> list(std::string_view prefix) override { return folder_->list(prefix, stop()); }
  Result<FileInfo> stat(std::string_view path) override {
    FB_TRY(check_stop());
    return folder_->stat(path);
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    return folder_->read_at(path, offset, out, stop());
  }
  Result<std::unique_ptr<Reader>> open_file(std::string_view path) override {
    return folder_->open_file(path, stop());
  }
  Status make_folder(std::string_view path) override { return folder_->make_folder(path); }
  Status rename_folder(std::string_view from, std::string_view to) override {
    return folder_->rename_folder(from, to);
  }
  Status link_file(std::string_view from, std::string_view to) override {
    return folder_->link_file(from, to);
  }
  Result<std::shared_ptr<const void>> lock_file(std::string_view path, bool is_exclusive) override {
    return folder_->lock_file(path, is_exclusive);
  }
  Status remove_folder(std::string_view path) override { return folder_->remove_folder(path); }
  Result<std::unique_ptr<Writer>> create(std::string_view path) override {
    return folder_->create(path, Caching::kCached);
  }
  Status remove(std::string_view path) override { return folder_->remove(path); }
  Result<std::vector<std::string>> list_folders(std::string_view prefix) override {
    return folder_->list_folders(prefix);
  }
  Result<std::vector<Unpublished>> list_unpublished(std::string_view prefix) override {
    return folder_->list_unpublished(prefix);
  }
  Status remove_unpublished(const Unpublished& one) override {
    return folder_->remove_unpublished(one);
  }
  void look_again() override { folder_->look_again(); }
  Result<uint64_t> free_bytes() override { return folder_->free_bytes(); }

 protected:
  Folder& folder() const { return *folder_; }

 private:
  const std::string_view driver_;
  std::unique_ptr<Folder> folder_;
};

}  // namespace forebay::storage

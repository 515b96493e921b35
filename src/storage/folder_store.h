// What the stores on files have in common: everything but how they read many files at once.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "storage/folder.h"
#include "storage/store.h"

namespace forebay::storage {

class FolderStore : public Store {
 public:
  FolderStore(std::string_view driver, std::unique_ptr<Folder> folder)
      : driver_(driver), folder_(std::move(folder)) {}

  std::string describe() const override { return std::string(driver_) + ":" + folder_->root(); }
  Result<Listing> list(std::string_view prefix) override { return folder_->list(prefix); }
  Result<FileInfo> stat(std::string_view path) override { return folder_->stat(path); }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    return folder_->read_at(path, offset, out);
  }
  Result<std::unique_ptr<Writer>> create(std::string_view path) override {
    return folder_->create(path);
  }
  Status remove(std::string_view path) override { return folder_->remove(path); }
  Result<uint64_t> free_bytes() override { return folder_->free_bytes(); }

 protected:
  Folder& folder() const { return *folder_; }

 private:
  const std::string_view driver_;
  std::unique_ptr<Folder> folder_;
};

}  // namespace forebay::storage

// Writes one object: one PUT when it is small, else parts that travel side by side.
//
//   append --> part buffer --full--> upload of the part (several at once) --> publish: complete
//
// One thread at a time. Memory: upload_parts + 1 parts.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/s3_client.h"
#include "storage/store.h"

namespace forebay::storage {

class S3Writer final : public Writer {
 public:
  S3Writer(S3Client& client, std::string_view path);
  ~S3Writer() override;  // takes back an upload that was not published

  Status append(std::span<const std::byte> bytes) override;
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override;
  // Waits until the server has acknowledged every part that is under way. The rest goes with
  // publish(), which returns once the server holds the whole object.
  Status sync() override;
  Status publish() override;

 private:
  class PartCall;

  Status usable() const;
  uint64_t part_bytes() const;
  Status begin_upload();
  Status send_part();
  // Waits until at most `count` parts are under way; the first error of any.
  Status wait_for_parts(size_t count);
  Status put_whole();
  Status complete();
  // After a lost answer: is the object there, as it should be?
  Status confirm(const Error& error);
  void abort();
  Status remember(Status status);

  S3Client& client_;
  const std::string path_;
  const std::string key_;
  std::vector<std::byte> buffer_;
  std::string upload_id_;
  std::vector<std::unique_ptr<PartCall>> parts_;  // under way
  std::vector<std::string> etags_;                // by part number
  uint64_t bytes_ = 0;
  Status failure_;
  bool is_published_ = false;
};

}  // namespace forebay::storage

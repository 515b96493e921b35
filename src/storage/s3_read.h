// One read of a queue: one request, or several side by side when it is long.
//
// The loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/s3_client.h"
#include "storage/store.h"

namespace forebay::storage {

class S3Read {
 public:
  // `on_done` is called once for each start(); it may start the next.
  S3Read(S3Client& client, std::function<void(S3Read&)> on_done);
  ~S3Read();

  void start(const Read& read);
  // Nothing is called or written any more for the read under way.
  void cancel();
  Completion& completion() { return out_; }
  // All that is wrong with it is that the object ends before the read does.
  bool is_past_end() const { return is_past_end_; }

 private:
  class Range;

  void plan();
  void begin();
  void feed();
  void visit(std::span<const std::byte> piece);
  void range_done(Status status, bool is_changed);
  void end();
  bool may_restart() const;

  S3Client& client_;
  const std::function<void(S3Read&)> on_done_;
  Read read_;
  Completion out_;
  std::vector<std::unique_ptr<Range>> ranges_;  // the first range_count_ are in use
  size_t range_count_ = 0;
  size_t running_ = 0;
  std::string etag_;    // of the object that the first answer came from
  uint64_t total_ = 0;  // its length
  bool is_total_known_ = false;
  bool is_size_wanted_ = false;  // a range began behind the end
  bool is_changed_ = false;
  bool is_past_end_ = false;
  uint64_t visited_ = 0;  // bytes that the visitor has seen
  int restarts_ = 0;
};

}  // namespace forebay::storage

#include "emulate/checkpoint_trace.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/clock.h"
#include "trace/recorder.h"

namespace forebay::emulate {
namespace {

using storage::Store;
using trace::Category;

// Where the spans of one store's calls go, and what they are called.
struct CallNames {
  CallNames(trace::Recorder& to, trace::TrackId on)
      : recorder(&to),
        track(on),
        write(to.name("write", Category::kCheckpoint)),
        fsync(to.name("fsync", Category::kCheckpoint)),
        rename(to.name("rename", Category::kCheckpoint)),
        bytes(to.key(trace::key::kBytes)),
        file(to.key(trace::key::kFile, trace::ArgumentType::kText)) {}

  template <class Call>
  auto record(trace::NameId name, trace::TextId path, uint64_t size, const Call& call) const {
    const int64_t start = base::monotonic_clock().now_ns();
    auto result = call();
    recorder->span(track, name, start, base::monotonic_clock().now_ns(),
                   {{file, path}, {bytes, static_cast<int64_t>(size)}});
    return result;
  }

  trace::Recorder* recorder;
  trace::TrackId track;
  trace::NameId write, fsync, rename;
  trace::KeyId bytes, file;
};

class TracedWriter final : public storage::Writer {
 public:
  TracedWriter(std::unique_ptr<Writer> over, const CallNames& names, trace::TextId path)
      : over_(std::move(over)), names_(names), path_(path) {}
  Status append(std::span<const std::byte> bytes) override {
    return names_.record(names_.write, path_, bytes.size(), [&] { return over_->append(bytes); });
  }
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override {
    return names_.record(names_.write, path_, bytes.size(),
                         [&] { return over_->patch(offset, bytes); });
  }
  Status sync() override {
    return names_.record(names_.fsync, path_, 0, [&] { return over_->sync(); });
  }
  Status publish() override {
    return names_.record(names_.rename, path_, 0, [&] { return over_->publish(); });
  }

 private:
  const std::unique_ptr<Writer> over_;
  const CallNames& names_;
  const trace::TextId path_;
};

// Tells what writing, syncing and renaming took; all else goes through.
class TracedStore final : public Store {
 public:
  TracedStore(Store& over, std::unique_ptr<Store> own, const CallNames& names)
      : own_(std::move(own)), over_(over), names_(names) {}

  storage::Capabilities capabilities() const override { return over_.capabilities(); }
  std::string describe() const override { return over_.describe(); }
  Result<storage::Listing> list(std::string_view prefix) override { return over_.list(prefix); }
  Result<storage::FileInfo> stat(std::string_view path) override { return over_.stat(path); }
  Result<std::unique_ptr<storage::ReadQueue>> open_queue(storage::QueueOptions options) override {
    return over_.open_queue(std::move(options));
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    return over_.read_at(path, offset, out);
  }
  void set_stop(std::stop_token stop) override { over_.set_stop(std::move(stop)); }
  Status make_folder(std::string_view path) override { return over_.make_folder(path); }
  Status rename_folder(std::string_view from, std::string_view to) override {
    return names_.record(names_.rename, names_.recorder->text(to), 0,
                         [&] { return over_.rename_folder(from, to); });
  }
  Status remove_folder(std::string_view path) override { return over_.remove_folder(path); }
  Status link_file(std::string_view from, std::string_view to) override {
    return over_.link_file(from, to);
  }
  Result<std::shared_ptr<const void>> lock_file(std::string_view path, bool is_exclusive) override {
    return over_.lock_file(path, is_exclusive);
  }
  Result<std::unique_ptr<storage::Writer>> create(std::string_view path) override {
    auto writer = FB_TRY(over_.create(path));
    return std::unique_ptr<storage::Writer>(
        std::make_unique<TracedWriter>(std::move(writer), names_, names_.recorder->text(path)));
  }
  Status remove(std::string_view path) override { return over_.remove(path); }
  Result<uint64_t> free_bytes() override { return over_.free_bytes(); }
  uint64_t other_retries() const override { return over_.other_retries(); }

 private:
  const std::unique_ptr<Store> own_;
  Store& over_;
  const CallNames names_;
};

trace::TrackId accelerator(trace::Recorder& recorder, size_t rank) {
  return recorder.track(trace::TrackKind::kDevice, "accelerator", static_cast<int64_t>(rank));
}

trace::TrackId drain_track(trace::Recorder& recorder, std::string_view place) {
  return recorder.track(trace::TrackKind::kStream, fmt::format("drain to {}", place));
}

}  // namespace

CheckpointTrace::CheckpointTrace(trace::Recorder* recorder) : recorder_(recorder) {
  if (recorder_ == nullptr) return;
  save_ = recorder_->name("save", Category::kCheckpoint);
  commit_ = recorder_->name("commit", Category::kCheckpoint);
  restore_ = recorder_->name("restore", Category::kCheckpoint);
  read_ = recorder_->name("read", Category::kCheckpoint);
  drain_ = recorder_->name("drain", Category::kCheckpoint);
  step_ = recorder_->key(trace::key::kStep);
  bytes_ = recorder_->key(trace::key::kBytes);
  file_ = recorder_->key(trace::key::kFile, trace::ArgumentType::kText);
  prepare_ = recorder_->key(trace::key::kPrepareNs);
}

void CheckpointTrace::span(trace::TrackId track, trace::NameId name, int64_t start_ns,
                           int64_t end_ns, uint64_t step, uint64_t bytes) const {
  recorder_->span(track, name, start_ns, end_ns,
                  {{step_, static_cast<int64_t>(step)}, {bytes_, static_cast<int64_t>(bytes)}});
}

void CheckpointTrace::save(size_t rank, int64_t start_ns, int64_t end_ns, uint64_t step,
                           uint64_t bytes) const {
  if (recorder_ != nullptr)
    span(accelerator(*recorder_, rank), save_, start_ns, end_ns, step, bytes);
}

void CheckpointTrace::commit(size_t rank, int64_t start_ns, int64_t end_ns, uint64_t step) const {
  if (recorder_ != nullptr) span(accelerator(*recorder_, rank), commit_, start_ns, end_ns, step, 0);
}

void CheckpointTrace::restore(size_t rank, int64_t start_ns, int64_t end_ns, uint64_t step,
                              uint64_t bytes) const {
  if (recorder_ != nullptr)
    span(accelerator(*recorder_, rank), restore_, start_ns, end_ns, step, bytes);
}

void CheckpointTrace::read(size_t rank, std::string_view path,
                           const storage::Completion& completion) const {
  if (recorder_ == nullptr) return;
  const trace::TrackId track =
      recorder_->track(trace::TrackKind::kStream, fmt::format("accelerator {} reads", rank));
  recorder_->span(track, read_, completion.started_ns, completion.ended_ns,
                  {{bytes_, static_cast<int64_t>(completion.bytes)},
                   {file_, recorder_->text(path)},
                   {prepare_, completion.visit_ns}});
}

void CheckpointTrace::drain(std::string_view place, int64_t start_ns, int64_t end_ns,
                            uint64_t step) const {
  if (recorder_ != nullptr) span(drain_track(*recorder_, place), drain_, start_ns, end_ns, step, 0);
}

std::unique_ptr<Store> CheckpointTrace::of_rank(Store& over, size_t rank) const {
  if (recorder_ == nullptr) return nullptr;
  return std::make_unique<TracedStore>(over, nullptr,
                                       CallNames(*recorder_, accelerator(*recorder_, rank)));
}

std::unique_ptr<Store> CheckpointTrace::of_drain(std::unique_ptr<Store> over,
                                                 std::string_view place) const {
  if (recorder_ == nullptr) return over;
  Store& below = *over;
  return std::make_unique<TracedStore>(below, std::move(over),
                                       CallNames(*recorder_, drain_track(*recorder_, place)));
}

}  // namespace forebay::emulate
